// SPDX-License-Identifier: Apache-2.0
#include "share/imported_segment.hpp"

#include "berth/bytes.hpp"
#include "berth/error.hpp"

#include "base/format.hpp"
#include "memory/source/lone_mapping.hpp"
#include "memory/source/physical_memory.hpp"

namespace berth {
namespace {

std::uintptr_t import(DeviceContext& context, const Descriptor& descriptor, std::size_t bytes) {
  if (!supports_export(context)) {
    throw NotSupported(format_text("{} cannot import memory of other processes by descriptors",
                                   context.device().to_string()));
  }
  const Driver& driver = context.driver();
  const ContextScope scope(context);
  CUmemGenericAllocationHandle handle = 0;
  driver.mem_import_from_shareable_handle(
      &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor.number())),
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const CUmemAccessDesc access = access_by(context);
  std::uintptr_t address = 0;
  try {
    address = map_alone(context, handle, bytes, {&access, 1});
  } catch (...) {
    driver.mem_release_or_report(handle);
    throw;
  }
  driver.mem_release_or_report(handle);  // the mapping keeps the memory
  if (address != 0) return address;
  throw OutOfMemory(format_text("{}: no room to map {} of another process",
                                context.device().to_string(), format_bytes(bytes)));
}

}  // namespace

ImportedSegment::ImportedSegment(DeviceContext& context, Descriptor descriptor, std::size_t bytes)
    : context_(context), bytes_(bytes), address_(import(context, descriptor, bytes)) {}

ImportedSegment::~ImportedSegment() {
  if (origin_.is_here()) unmap_alone(context_, address_, bytes_);
}

}  // namespace berth
