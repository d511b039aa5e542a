// SPDX-License-Identifier: Apache-2.0
// The parts that are specific to copies between files and devices.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/file.hpp"
#include "berth/stream.hpp"

#include "copy/operand/memory_kind.hpp"
#include "copy/staged/staged_copy.hpp"
#include "copy/staged/staged_transfer.hpp"

namespace berth {

/// Errors  InvalidArgument: `device` is host memory, or the file is not open for this direction.
///         FileError: the range wraps around, or ends beyond the end of a source.
void check_file_copy(const FileRange& range, const MemorySide& device, CopyDirection direction);

/// The route through staging memory.
StagedRoute file_route(const FileRange& range, std::byte* device, CopyDirection direction,
                       std::shared_ptr<const void> keep_alive);

/// The Transfer of the copy.
std::shared_ptr<StagedTransfer> file_transfer(const FileRange& range, HostWork& work,
                                              const HostWork::CopyPtr& copy);

/// Copies without staging memory: the driver copies, and the calling thread waits. Within a
/// ContextScope of the stream's device.
/// Errors  FileError. DriverError.
void copy_file_by_driver(const FileRange& range, std::byte* device, CopyDirection direction,
                         StreamRef stream);

}  // namespace berth
