// SPDX-License-Identifier: Apache-2.0
// The rules of the configuration that involve several settings.
#pragma once

namespace berth::sim {

struct Config;

/// Errors InvalidArgument that names the settings and what they accept.
void check_settings(const Config& config);

}  // namespace berth::sim
