// SPDX-License-Identifier: Apache-2.0
#include "pjrt/topology.hpp"

#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "pjrt/description.hpp"

namespace berth::pjrt {

PjrtTopology::PjrtTopology(const Api& api, std::string name, const std::vector<PjrtOption>& options)
    : api_(api), topology_name_(std::move(name)) {
  std::vector<NamedValue> values;
  for (const PjrtOption& option : options) values.push_back(to_named_value(option));
  TopologyCreateArgs args{};
  args.name = topology_name_.data();
  args.name_bytes = topology_name_.size();
  args.options = values.data();
  args.option_count = values.size();
  api_.call(topology_create, args);
  topology_ = args.topology;
  try {
    TopologyDescriptionsArgs described{};
    described.topology = topology_;
    api_.call(topology_descriptions, described);
    descriptions_.assign(described.descriptions,
                         described.descriptions + described.description_count);
  } catch (...) {
    api_.destroy(topology_destroy, {0, nullptr, topology_});
    throw;
  }
}

PjrtTopology::~PjrtTopology() {
  api_.destroy(topology_destroy, {0, nullptr, topology_});
}

std::string PjrtTopology::name() const {
  TopologyTextArgs args{};
  args.topology = topology_;
  api_.call(topology_platform_name, args);
  return name_of(api_, std::string_view(args.text, args.text_bytes), "topology " + topology_name_);
}

DeviceDescription PjrtTopology::describe(int index) const {
  DeviceDescription described =
      pjrt::describe(api_, descriptions_[static_cast<std::size_t>(index)]);
  TopologyAttributesArgs args{};
  args.topology = topology_;
  api_.call(topology_attributes, args);
  add_attributes(described, {args.attributes, args.attribute_count});
  return described;
}

void PjrtTopology::refuse() const {
  throw NotSupported(
      format_text("the devices of topology {} are descriptions and have no memory; "
                  "accepted: a client, as open_pjrt() creates it",
                  topology_name_));
}

}  // namespace berth::pjrt
