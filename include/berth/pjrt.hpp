// SPDX-License-Identifier: Apache-2.0
// Devices of PJRT plug-ins: TPUs, and other accelerators whose vendor ships a plug-in. Needs the
// optional library libberth_pjrt, which berth loads at the first use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "berth/cpp20.hpp"
#include "berth/device_backend.hpp"
#include "berth/export.h"

namespace berth {

/// A named option that a plug-in understands when its client or a topology is created. The vendor
/// documents them.
struct PjrtOption {
  std::string name;
  std::variant<bool, std::int64_t, float, std::string> value;
};

/// A plug-in and the device type that its devices get.
struct PjrtPlugin {
  std::string type;  ///< "tpu"
  std::string path;  ///< of the library, or its name for the loader: "libtpu.so"
  std::vector<PjrtOption> options = {};
};

/// Loads a plug-in and creates a client with all devices that this process can use. Pass the result
/// to Runtime::register_backend(); Runtime::register_pjrt() does both. `type` is not used.
///
/// The plug-in runs in this process: if it crashes or stops the process while it is loaded, so does
/// the program. It is never unloaded. A library that is refused before any of its functions but
/// GetPjrtApi is called is unloaded, unless a thread has started in the process meanwhile, which
/// may be its own. berth requires major version 0 of the ABI and a minor version from 57 on.
/// Blocking  As long as the plug-in takes to initialize itself and to create its client, which
///           berth does not bound: libtpu takes minutes where it waits for the metadata server of a
///           cloud that is not there. Waits while another thread initializes the same plug-in.
/// Errors    InvalidArgument: no library, or a library without GetPjrtApi. NotSupported: another
///           version of the ABI; a function that berth needs is missing; libberth_pjrt is not
///           installed. BackendError, and OutOfMemory, NotSupported, Cancelled by the plug-in's
///           code: the plug-in refuses, with its code and text. Nothing exists then, and the call
///           may be repeated; a plug-in that was initialized stays loaded.
/// Threads   Safe from any thread.
[[nodiscard]] BERTH_API std::unique_ptr<DeviceBackend> open_pjrt(const PjrtPlugin& plugin);

/// The devices of a topology, such as "v5e:2x2x1" of libtpu, without hardware: they can be counted
/// and described. Creating buffers on them throws NotSupported. `plugin.options` are passed to the
/// topology, whose options may differ from the options of a client.
/// Blocking  As open_pjrt(), with the topology instead of a client.
/// Errors    As open_pjrt().
[[nodiscard]] BERTH_API std::unique_ptr<DeviceBackend> open_pjrt_topology(
    const PjrtPlugin& plugin, const std::string& topology);

}  // namespace berth
