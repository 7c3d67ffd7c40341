/* What the code of a C++ compiler calls, on a board without a library of C++ and without a heap.
 * Objects are never deleted: static ones live until the reset, those of a controller end in place. */
extern "C" {
void *__dso_handle;
int __cxa_atexit(void (*)(void *), void *, void *)
{
    return 0;
}
int __aeabi_atexit(void *, void (*)(void *), void *)
{
    return 0;
}
[[noreturn]] void __cxa_pure_virtual(void)
{
    for (;;) {
    }
}
}

void operator delete(void *) noexcept
{
}
void operator delete(void *, __SIZE_TYPE__) noexcept
{
}
