/* Exceptions of a controller in C++: the functions of its unit catch them, because their callers are C.
 * With -fno-exceptions there is nothing to catch. */
#ifndef RTSIM_THROWN_H
#define RTSIM_THROWN_H

#include "rtsim_unit.h"

#ifdef __EXCEPTIONS
#include <exception>

#ifdef __GXX_RTTI
#include <cxxabi.h>
#include <stdlib.h>
#include <typeinfo>
#endif

/* The text of what was thrown is kept in one line: its type, if known, and what() says. */
static inline void rtsim_note_thrown(const char *type, const char *what)
{
    unsigned k = 0;
    const char *parts[] = {type, *what ? ": " : "", what};
    for (const char *part : parts)
        for (; *part && k + 1 < RTSIM_THROWN_BYTES; part++)
            rtsim_thrown[k++] = (unsigned char)*part < ' ' ? ' ' : *part;
    rtsim_thrown[k] = 0;
}

static inline void rtsim_note_exception(const std::exception &error)
{
#ifdef __GXX_RTTI
    char *name = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, nullptr);
    rtsim_note_thrown(name ? name : "an exception", error.what());
    free(name);
#else
    rtsim_note_thrown("an exception", error.what());
#endif
}

#define RTSIM_TRY try
#define RTSIM_CATCH(result)                        \
    catch (const std::exception &rtsim_error)      \
    {                                              \
        rtsim_note_exception(rtsim_error);         \
        return result;                             \
    }                                              \
    catch (...)                                    \
    {                                              \
        rtsim_note_thrown("a value that is no std::exception", ""); \
        return result;                             \
    }
#else
#define RTSIM_TRY
#define RTSIM_CATCH(result)
#endif

#endif
