// SPDX-License-Identifier: Apache-2.0
// The variables in device code that is compiled: of a cubin, which is an ELF file, and of the
// cubins in a fat binary. Every offset and size is checked against the size of the image.
// Source: System V ABI, "Object Files"; CUDA Binary Utilities.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "sim/work/ptx_variables.hpp"

namespace berth::sim {

/// In the order of the symbols. Null if `image` is no cubin, or a malformed one.
std::optional<std::vector<ImageVariable>> read_cubin(std::span<const std::byte> image);
/// Of the first cubin. Null if there is none, or if it is compressed or malformed.
std::optional<std::vector<ImageVariable>> read_fat_binary(std::span<const std::byte> image);

/// The whole cubin or fat binary at `start`, whose size is in its headers; empty if it is malformed
/// or not all there.
std::vector<std::byte> copy_cubin(const void* start);
std::vector<std::byte> copy_fat_binary(const void* start);
/// The fat binary to which the structure at `start` points, which nvcc's host code has.
std::vector<std::byte> copy_wrapped_fat_binary(const void* start);

}  // namespace berth::sim
