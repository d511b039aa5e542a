// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace berth::fuzz {

std::vector<std::string> trace_seeds();
std::vector<std::string> snapshot_seeds();
std::vector<std::string> configuration_seeds();
std::vector<std::string> device_text_seeds();
std::vector<std::string> visible_devices_seeds();
std::vector<std::string> device_code_seeds();
std::vector<std::string> simulator_seeds();

std::span<const std::string_view> trace_words();
std::span<const std::string_view> snapshot_words();
std::span<const std::string_view> configuration_words();
std::span<const std::string_view> device_text_words();
std::span<const std::string_view> visible_devices_words();
std::span<const std::string_view> device_code_words();
std::span<const std::string_view> simulator_words();

}  // namespace berth::fuzz
