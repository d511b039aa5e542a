// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"

namespace berth {

/// Starts a thread that calls run(). `purpose` completes "no thread can be started for ...".
/// Errors  Exhausted: the system starts no more threads.
template <class Run>
std::thread start_thread(const char* purpose, Run run) {
  try {
    return std::thread(std::move(run));
  } catch (const std::system_error& error) {
    throw Exhausted(format_text(
        "no thread can be started for {}: {}; accepted: fewer threads, or a higher limit of the "
        "system",
        purpose, error.code().message()));
  }
}

}  // namespace berth
