// SPDX-License-Identifier: Apache-2.0
// The parts of copies between files and devices that other copies do not have.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/file.hpp"
#include "berth/stream.hpp"

#include "copy/operand/memory_kind.hpp"
#include "copy/staged/staged_copy.hpp"
#include "copy/staged/staged_transfer.hpp"

namespace berth {

/// Errors  InvalidArgument: host memory; a file that is open for the other use. FileError: a range
///         that wraps around, or that goes beyond the end of a source.
void check_file_copy(const FileRange& range, const MemorySide& device, CopyDirection direction);

/// Through staging memory.
StagedRoute file_route(const FileRange& range, std::byte* device, CopyDirection direction,
                       std::shared_ptr<const void> keep_alive);

/// The Transfer of the copy.
std::shared_ptr<StagedTransfer> file_transfer(const FileRange& range, HostWork& work,
                                              const HostWork::CopyPtr& copy);

/// Without staging memory: by the driver and the calling thread, which waits. Within a ContextScope
/// of the stream's device.
/// Errors  FileError. DriverError.
void copy_file_by_driver(const FileRange& range, std::byte* device, CopyDirection direction,
                         StreamRef stream);

}  // namespace berth
