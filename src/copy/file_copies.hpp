// SPDX-License-Identifier: Apache-2.0
// What copies between files and devices are made of, but for what all copies have.
#pragma once

#include <cstddef>
#include <memory>

#include "berth/file.hpp"
#include "berth/stream.hpp"

#include "copy/operand/memory_kind.hpp"
#include "copy/staged/staged_copy.hpp"
#include "copy/staged/staged_transfer.hpp"

namespace berth {

/// Errors  InvalidArgument: memory that is not a device's; a file that is open for the other use.
///         FileError: a range that wraps around, or of a source that ends before.
void check_file_copy(const FileRange& range, const MemorySide& device, CopyDirection direction);

/// Through staging memory.
StagedRoute file_route(const FileRange& range, std::byte* device, CopyDirection direction,
                       std::shared_ptr<const void> keep_alive);

/// What its caller sees of it.
std::shared_ptr<StagedTransfer> file_transfer(const FileRange& range, HostWork& work,
                                              const HostWork::CopyPtr& copy);

/// Where that does not go: by the driver's own means and the calling thread, which waits. Within a
/// ContextScope of the stream's device.
/// Errors  FileError. DriverError.
void copy_file_by_driver(const FileRange& range, std::byte* device, CopyDirection direction,
                         StreamRef stream);

}  // namespace berth
