// SPDX-License-Identifier: Apache-2.0
// Each Runtime has a context object of its own for the same device, with its own pools behind it.
#pragma once

namespace berth {

class DeviceContext;
class DeviceRegistry;

/// The accepted stream, in errors about a stream of another Runtime.
inline constexpr const char* kOwnStream =
    "a stream of the called object's own Runtime, whose Runtime::stream() wraps any handle";

/// Refuses the context of a stream of another Runtime. `action` completes "a stream of another
/// Runtime cannot be ...".
/// Errors  InvalidArgument.
void require_own_context(const DeviceRegistry& registry, const DeviceContext& context,
                         const char* action);

}  // namespace berth
