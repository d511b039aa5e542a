// SPDX-License-Identifier: Apache-2.0
#include "pjrt/topology.hpp"

#include <utility>

#include "berth/error.hpp"

#include "base/format.hpp"
#include "pjrt/description.hpp"
#include "pjrt/given.hpp"
#include "pjrt/named_value.hpp"

namespace berth::pjrt {

PjrtTopology::PjrtTopology(const Api& api, std::string name, const std::vector<PjrtOption>& options)
    : api_(api), topology_name_(std::move(name)) {
  const std::vector<NamedValue> values = to_named_values(options);
  TopologyCreateArgs args{};
  args.name = topology_name_.data();
  args.name_bytes = topology_name_.size();
  args.options = values.data();
  args.option_count = values.size();
  api_.call(topology_create, args);
  topology_ = args.topology;
  if (topology_ == nullptr) refuse_nothing(api_, "topology");
  try {
    TopologyDescriptionsArgs described{};
    described.topology = topology_;
    api_.call(topology_descriptions, described);
    const auto given = require_objects(api_, topology_descriptions.name, described.descriptions,
                                       described.description_count);
    descriptions_.assign(given.begin(), given.end());
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
  return name_of(api_, require_text(api_, topology_platform_name.name, args.text, args.text_bytes),
                 "topology " + topology_name_);
}

std::vector<DeviceAttribute> PjrtTopology::attributes() const {
  return attributes_of(api_);
}

DeviceDescription PjrtTopology::describe(int index) const {
  DeviceDescription described =
      pjrt::describe(api_, descriptions_[static_cast<std::size_t>(index)]);
  TopologyAttributesArgs args{};
  args.topology = topology_;
  api_.call(topology_attributes, args);
  add_attributes(api_, topology_attributes.name, described, args.attributes, args.attribute_count);
  return described;
}

void PjrtTopology::refuse() const {
  throw NotSupported(
      format_text("the devices of topology {} are descriptions and have no memory; "
                  "accepted: a client, as open_pjrt() creates it",
                  topology_name_));
}

}  // namespace berth::pjrt
