// SPDX-License-Identifier: Apache-2.0
// The part of the PJRT ABI that is about topologies, as pjrt_abi.hpp.
#pragma once

#include <cstddef>

#include "pjrt/pjrt_abi.hpp"

namespace berth::pjrt {

struct TopologyCreateArgs {
  std::size_t struct_size;
  void* extensions;
  const char* name;
  std::size_t name_bytes;
  const NamedValue* options;
  std::size_t option_count;
  Topology* topology;  ///< out
};

struct TopologyDestroyArgs {
  std::size_t struct_size;
  void* extensions;
  Topology* topology;
};

struct TopologyTextArgs {  ///< of TopologyDescription_PlatformName
  std::size_t struct_size;
  void* extensions;
  const Topology* topology;
  const char* text;  ///< out
  std::size_t text_bytes;
};

struct TopologyDescriptionsArgs {
  std::size_t struct_size;
  void* extensions;
  const Topology* topology;
  Description* const* descriptions;  ///< out
  std::size_t description_count;
};

struct TopologyAttributesArgs {
  std::size_t struct_size;
  void* extensions;
  Topology* topology;
  const NamedValue* attributes;  ///< out
  std::size_t attribute_count;
};

}  // namespace berth::pjrt
