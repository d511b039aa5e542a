// SPDX-License-Identifier: Apache-2.0
// A word that streams wait for, and that the host writes as another thread would.
#pragma once

#include <atomic>

#include "sim/sim_fixture.hpp"

namespace berth::test {

template <class T>
struct Flag {
  Flag() : value(reinterpret_cast<T*>(make_pinned(sizeof(T)))) { set(0); }
  void set(T to) { std::atomic_ref<T>(*value).store(to); }
  [[nodiscard]] T get() const { return std::atomic_ref<T>(*value).load(); }
  [[nodiscard]] CUdeviceptr address() const { return address_of(value); }
  /// What `stream` is given later waits until the flag is 1.
  void hold(CUstream stream) const {
    OK(CU(cuStreamWaitValue32)(stream, address(), 1, CU_STREAM_WAIT_VALUE_GEQ));
  }
  T* value;
};

}  // namespace berth::test
