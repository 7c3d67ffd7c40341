// std::thread, std::condition_variable and std::this_thread in virtual time.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <thread>

using namespace std::chrono_literals;

int main() {
    std::mutex mutex;
    std::condition_variable condition;
    bool ready = false;
    auto begun = std::chrono::steady_clock::now();
    auto ms = [&] {
        return static_cast<double>((std::chrono::steady_clock::now() - begun) / 100us) / 10;
    };
    std::thread worker([&] {
        std::this_thread::sleep_for(10ms);
        std::lock_guard<std::mutex> lock(mutex);
        ready = true;
        condition.notify_one();
    });
    {
        std::unique_lock<std::mutex> lock(mutex);
        condition.wait(lock, [&] { return ready; });
        std::printf("notified at %.1f\n", ms());
        auto status = condition.wait_for(lock, 5ms);
        std::printf("timeout %d at %.1f\n", status == std::cv_status::timeout, ms());
        auto until = std::chrono::system_clock::now() + 5ms;
        std::printf("timeout %d", condition.wait_until(lock, until) == std::cv_status::timeout);
        std::printf(" at %.1f\n", ms());
    }
    worker.join();
    std::this_thread::sleep_until(begun + 30ms);
    std::printf("slept until %.1f\n", ms());
    auto result = std::async(std::launch::async, [] {
        std::this_thread::sleep_for(3ms);
        return 42;
    });
    std::printf("future %d", result.get());
    std::printf(" at %.1f\n", ms());
    std::timed_mutex timed;
    timed.lock();
    std::thread other([&] { std::printf("locked %d\n", timed.try_lock_for(2ms)); });
    other.join();
    std::once_flag once;
    for (int k = 0; k < 2; k++) std::call_once(once, [] { std::printf("once\n"); });
    std::printf("end at %.1f\n", ms());
}
