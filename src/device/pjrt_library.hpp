// SPDX-License-Identifier: Apache-2.0
// The interface between libberth and libberth_pjrt: the entry point of libberth_pjrt. Both are
// built together.
#pragma once

#include <cstddef>
#include <exception>

#include "berth/device_backend.hpp"
#include "berth/export.h"
#include "berth/pjrt.hpp"

namespace berth {

struct PjrtRequest {
  std::size_t struct_size = sizeof(PjrtRequest);
  const PjrtPlugin* plugin = nullptr;
  const char* topology = nullptr;   ///< null: a client
  std::exception_ptr failure = {};  ///< output, if there is no backend
};

}  // namespace berth

/// The caller owns the backend. Null: see `request->failure`.
extern "C" BERTH_API berth::DeviceBackend* berth_pjrt_open(berth::PjrtRequest* request) noexcept;
