// SPDX-License-Identifier: Apache-2.0
// Modules in files: from any device, to any device.
#pragma once

#include <filesystem>

#include "../core/module.hpp"
#include "safetensors.hpp"

namespace mini {

/// Writes all tensors of a module. The file is there when the call returns, whole or not at all.
inline void save(const Module& module, const std::string& path) {
  std::string entries = "{\"__metadata__\":{";
  std::string devices;
  std::uint64_t offset = 0;
  for (const Module::Named& named : module.tensors()) {
    devices += (devices.empty() ? "" : ",") + ('"' + named.name + "\":\"") +
               named.tensor->device().to_string() + '"';
  }
  entries += devices + '}';
  for (const Module::Named& named : module.tensors()) {
    std::string shape;
    for (const long size : named.tensor->shape())
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const std::uint64_t end = offset + named.tensor->bytes();
    entries += ",\"" + named.name + "\":{\"dtype\":\"F32\",\"shape\":[" + shape +
               "],\"data_offsets\":[" + std::to_string(offset) + ',' + std::to_string(end) + "]}";
    offset = end;
  }
  entries += '}';
  entries.resize((entries.size() + 7) / 8 * 8, ' ');  // data begins at a multiple of 8 bytes

  const std::string unfinished = path + ".unfinished";
  std::filesystem::remove(unfinished);
  const berth::File file = berth::File::open_to_write(unfinished);
  const std::uint64_t header_bytes = entries.size();
  file.write(std::as_bytes(std::span(&header_bytes, 1)), 0);
  file.write(std::as_bytes(std::span(entries)), 8);
  offset = 8 + header_bytes;
  std::vector<berth::Transfer> transfers;
  for (const Module::Named& named : module.tensors()) {
    const Tensor tensor = named.tensor->device().is_opaque() ? named.tensor->cpu() : *named.tensor;
    const berth::FileRange range{file, offset, tensor.bytes()};
    if (tensor.device().is_cpu()) {
      library().kernels->host_uses(tensor.data(), tensor.bytes(), false);
      file.write({reinterpret_cast<const std::byte*>(tensor.data()), tensor.bytes()}, offset);
    } else {
      transfers.push_back(library().runtime.copier().start(range, tensor.data(),
                                                           library().stream(tensor.device())));
    }
    offset += tensor.bytes();
  }
  for (const berth::Transfer& transfer : transfers) transfer.wait();
  file.sync();
  std::filesystem::rename(unfinished, path);
}

/// Replaces all tensors of a module. `map`: from the device that a tensor was saved on to the one
/// that it goes to. Bytes for a device travel from the file to it. After an error, the module is as
/// it was.
inline void load(const Module& module, const std::string& path, const berth::DeviceMap& map = {}) {
  const berth::File file = berth::File::open_to_read(path);
  const SavedTensors saved = SafetensorsReader(file).read();
  std::vector<berth::Device> saved_on;
  for (const auto& [name, tensor] : saved) saved_on.push_back(tensor.device);
  map.check(devices(), saved_on);

  std::vector<Tensor> loaded;
  std::vector<berth::Transfer> transfers;
  for (const Module::Named& named : module.tensors()) {
    const auto found = saved.find(named.name);
    if (found == saved.end()) throw berth::InvalidArgument(path + " has no " + named.name);
    const SavedTensor& from = found->second;
    if (from.shape != named.tensor->shape())
      throw berth::InvalidArgument(named.name + " has another shape in " + path);
    const berth::FileRange range{file, from.begin, from.end - from.begin};
    const Device target = map(from.device);
    if (target.is_opaque()) {
      loaded.emplace_back(from.shape, library().runtime.buffers().create(target, range));
      transfers.push_back(loaded.back().buffer().ready());
      continue;
    }
    const Tensor& to = loaded.emplace_back(from.shape, target);
    if (to.device().is_cpu()) {
      file.read({reinterpret_cast<std::byte*>(to.data()), to.bytes()}, from.begin);
    } else {
      transfers.push_back(
          library().runtime.copier().start(to.data(), range, library().stream(to.device())));
    }
  }
  for (const berth::Transfer& transfer : transfers) transfer.wait();
  std::size_t next = 0;
  for (const Module::Named& named : module.tensors()) *named.tensor = std::move(loaded[next++]);
}

}  // namespace mini
