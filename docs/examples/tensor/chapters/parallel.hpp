// SPDX-License-Identifier: Apache-2.0
// Data parallelism: the same module on several devices, each with a part of the batch.
#pragma once

#include "../core/module.hpp"

namespace mini {

/// The rows of a tensor in equal parts, one for each device.
inline std::vector<Tensor> scatter(const Tensor& batch, const std::vector<Device>& targets) {
  Shape shape = batch.shape();
  if (targets.empty()) throw berth::InvalidArgument("scatter: there are no devices");
  if (shape.empty() || shape[0] % long(targets.size()) != 0)
    throw berth::InvalidArgument("scatter: the rows cannot be divided by the devices");
  shape[0] /= long(targets.size());
  std::vector<Tensor> parts;
  std::vector<berth::Shard> shards;
  for (const Device& target : targets) {
    const Tensor& part = parts.emplace_back(shape, target);
    shards.push_back({part.data(), part.bytes(), library().stream(part.device())});
  }
  const Device whole = batch.device().is_cpu() ? targets[0] : batch.device();
  library().runtime.collectives().scatter(batch.data(), batch.bytes(), library().stream(whole),
                                          shards);
  return parts;
}

/// The parts as one tensor on the device of the first.
inline Tensor gather(const std::vector<Tensor>& parts) {
  for (const Tensor& part : parts)
    if (part.shape().empty() || part.shape() != parts[0].shape())
      throw berth::InvalidArgument("gather: the shapes differ");
  if (parts.empty()) throw berth::InvalidArgument("gather: there are no parts");
  Shape shape = parts[0].shape();
  shape[0] *= long(parts.size());
  Tensor whole(shape, parts[0].device());
  std::vector<berth::Shard> shards;
  for (const Tensor& part : parts)
    shards.push_back({part.data(), part.bytes(), library().stream(part.device())});
  library().runtime.collectives().gather(whole.data(), whole.bytes(),
                                         library().stream(whole.device()), shards);
  return whole;
}

/// Copies the tensors of a module to those of another one of the same type, as one batch.
inline void copy_state(const Module& from, const Module& to) {
  std::vector<berth::CopyRange> ranges;
  const std::vector<Module::Named> sources = from.tensors();
  const std::vector<Module::Named> targets = to.tensors();
  if (sources.size() != targets.size())
    throw berth::InvalidArgument("copy_state: the modules differ");
  for (std::size_t index = 0; index < sources.size(); ++index) {
    const Tensor& source = *sources[index].tensor;
    if (source.shape() != targets[index].tensor->shape())
      throw berth::InvalidArgument("copy_state: the shapes of " + sources[index].name + " differ");
    ranges.push_back({targets[index].tensor->data(), source.data(), source.bytes()});
  }
  if (ranges.empty()) return;
  library().runtime.copier().start_batch(
      ranges, library().streams(targets[0].tensor->device(), sources[0].tensor->device()));
}

/// The output of `replicas` for a batch, on the device of the first. Nothing waits on the host.
inline Tensor forward(const std::vector<Module*>& replicas, const Tensor& batch) {
  std::vector<Device> targets;
  for (const Module* replica : replicas)
    targets.push_back(replica->tensors().at(0).tensor->device());
  std::vector<Tensor> parts = scatter(batch, targets);
  for (std::size_t index = 0; index < parts.size(); ++index)
    parts[index] = replicas[index]->forward(parts[index]);
  return gather(parts);
}

}  // namespace mini
