// SPDX-License-Identifier: Apache-2.0
// Each Runtime has a context object of its own for the same device, with its own pools behind it.
#pragma once

namespace berth {

class DeviceContext;
class DeviceRegistry;

/// Refuses the context of a stream of another Runtime. `action` completes "a stream of another
/// Runtime cannot be ...".
/// Errors  InvalidArgument.
void require_own_context(const DeviceRegistry& registry, const DeviceContext& context,
                         const char* action);

}  // namespace berth
