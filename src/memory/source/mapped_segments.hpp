// SPDX-License-Identifier: Apache-2.0
// Segments of one physical allocation each, which stay at their addresses: memory that other
// processes and network cards can refer to.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/descriptor.hpp"
#include "base/mutex.hpp"
#include "memory/source/whole_segments.hpp"

namespace berth {

/// Threads  As WholeSegments; segment_of() and export_segment() on any thread.
class MappedSegments final : public WholeSegments {
 public:
  struct Segment {
    std::uintptr_t address;
    std::size_t bytes;
  };

  /// Errors  DriverError.
  /// `properties`: shareable_properties().
  MappedSegments(DeviceContext& context, const CUmemAllocationProp& properties,
                 std::size_t segment_bytes, std::size_t device_bytes,
                 const MappingNotices& notices = {});

  void grant_access(DeviceContext& user) override;
  void require_sleep() const override;
  [[nodiscard]] std::size_t refused_bytes() const override;
  DriverRefusal retry_refused() noexcept override;
  void give_back_all(const BlockHeap& heap) noexcept override;

  /// The segment that contains `address`; nullopt if there is none.
  [[nodiscard]] std::optional<Segment> segment_of(std::uintptr_t address) const;
  /// A descriptor of the segment at this address, which other processes can import.
  /// Errors  NotSupported: the device has no exportable memory. DriverError.
  [[nodiscard]] Descriptor export_segment(std::uintptr_t address) const;
  [[nodiscard]] bool is_exportable() const {
    return has_handle(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  }
  [[nodiscard]] bool is_fabric_exportable() const { return has_handle(CU_MEM_HANDLE_TYPE_FABRIC); }
  [[nodiscard]] bool is_rdma_capable() const {
    return properties_.allocFlags.gpuDirectRDMACapable != 0;
  }

 private:
  [[nodiscard]] bool has_handle(CUmemAllocationHandleType type) const {
    return (unsigned{properties_.requestedHandleTypes} & type) != 0;
  }
  struct Mapped {
    CUmemGenericAllocationHandle handle = 0;
    std::size_t bytes = 0;
  };

  using Segments = std::map<std::uintptr_t, Mapped>;

  bool create(Growth& growth) override;
  DriverRefusal destroy(WholeSegments::Segment& segment) noexcept override;
  /// Memory that is not mapped; of 0 bytes if the driver has no memory left.
  /// Errors  DriverError.
  Mapped create_memory(std::size_t bytes);
  DriverRefusal release_or_keep(const Mapped& unmapped) noexcept;
  void keep_unmapped(const Mapped& unmapped) noexcept;
  DriverRefusal retry_unmapped() noexcept;
  [[nodiscard]] std::size_t unmapped_count() const;
  Mapped take_unmapped() noexcept;

  DeviceContext& context_;
  const CUmemAllocationProp properties_;
  std::vector<CUmemAccessDesc> access_;  ///< of growth and grant_access(), one at a time
  /// Not held while memory is mapped or unmapped, which may wait for the device.
  mutable Mutex mutex_;
  Segments segments_ BERTH_GUARDED_BY(mutex_);  ///< by address
  /// Memory without an address that the driver refused to release. It has room for all segments.
  std::vector<Mapped> unmapped_ BERTH_GUARDED_BY(mutex_);
};

}  // namespace berth
