// SPDX-License-Identifier: Apache-2.0
// Lookup of simulated functions by name.
// Source: CUDA Driver API, "Driver Entry Point Access".
#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "base/per_process.hpp"
#include "sim/functions.hpp"
#include "sim/nvml/unsupported.hpp"
#include "sim/per_thread_functions.hpp"
#include "sim/reported_functions.hpp"
#include "sim/state.hpp"
#include "sim/unsupported_functions.hpp"

namespace berth::sim {
namespace {

struct Entry {
  void* address = nullptr;
  int since = 0;
  void* per_thread = nullptr;  ///< the form for the per-thread default stream
};

using Table = std::unordered_map<std::string_view, Entry>;

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

// The names behind `names` in the list of functions.
struct Names {
  std::string_view plain;
  std::string_view v2 = {};
  std::string_view v3 = {};
  std::string_view v4 = {};
};
void add_plain(Table& table, const Names& names, Entry entry) {
  table.emplace(names.plain, entry);
}
void add_both(Table& table, const Names& names, Entry entry) {
  table.emplace(names.plain, entry);
  table.emplace(names.v2, entry);
}
void add_v2(Table& table, const Names& names, Entry entry) {
  add_both(table, names, entry);
}
void add_newer(Table& table, const Names& names, Entry entry) {
  add_both(table, names, entry);
}
void add_v3(Table& table, const Names& names, Entry entry) {
  table.emplace(names.plain, entry);
  table.emplace(names.v3, entry);
}
void add_v4(Table& table, const Names& names, Entry entry) {
  table.emplace(names.plain, entry);
  table.emplace(names.v4, entry);
}

/// Adds `name`, and registers it under the names of the plain form.
void add_per_thread(Table& table, std::string_view name, void* plain, void* per_thread) {
  int since = kPerThreadFormsSince;
  for (auto& [symbol, entry] : table) {
    if (entry.address != plain) continue;
    entry.per_thread = per_thread;
    since = std::max(since, entry.since);
  }
  table.emplace(name, Entry{per_thread, since});
}

void add_nvml(Table& table) {
#define BERTH_SIM_ADD_NVML(member, symbol, type, need) \
  table.emplace(#symbol, Entry{address_of(&berth_sim_##symbol)});
  BERTH_NVML_FUNCTIONS(BERTH_SIM_ADD_NVML)
#undef BERTH_SIM_ADD_NVML
#define BERTH_SIM_ADD_NVML(symbol, other) \
  table.emplace(#symbol, Entry{address_of(&berth_sim_##symbol)});
  BERTH_SIM_NVML_FUNCTIONS(BERTH_SIM_ADD_NVML)
#undef BERTH_SIM_ADD_NVML
#define BERTH_SIM_ADD_NVML(older, symbol) \
  table.emplace(#older, Entry{address_of(&berth_sim_##symbol)});
  BERTH_SIM_NVML_OLDER_NAMES(BERTH_SIM_ADD_NVML)
#undef BERTH_SIM_ADD_NVML
#define BERTH_SIM_ADD_NVML(symbol) \
  table.emplace(#symbol, Entry{address_of(&berth_sim_nvml_unsupported)});
  BERTH_SIM_NVML_UNSUPPORTED(BERTH_SIM_ADD_NVML)
#undef BERTH_SIM_ADD_NVML
  table.emplace("nvmlErrorString", Entry{address_of(&berth_sim_nvmlErrorString)});
}

/// All names.
struct Directory {
  Directory();
  Table table;
};

Directory::Directory() {
#define BERTH_SIM_ADD(symbol, names_, since)                                  \
  add_##names_(table, {#symbol, #symbol "_v2", #symbol "_v3", #symbol "_v4"}, \
               {address_of(berth_sim_reported_##symbol), since});
  BERTH_SIM_FUNCTIONS(BERTH_SIM_ADD)
#undef BERTH_SIM_ADD
#define BERTH_SIM_ADD_PER_THREAD(symbol, name)                          \
  add_per_thread(table, #name, address_of(berth_sim_reported_##symbol), \
                 address_of(berth_sim_##name));
  BERTH_SIM_PER_THREAD_FUNCTIONS(BERTH_SIM_ADD_PER_THREAD)
#undef BERTH_SIM_ADD_PER_THREAD
  add_plain(table, {"cuMemPrefetchAsync_ptsz"},
            {address_of(berth_sim_cuMemPrefetchAsync_ptsz), 8000});
  add_plain(table, {"cuGetProcAddress"}, {address_of(&berth_sim_cuGetProcAddress), 11030});
  add_plain(table, {"cuGetProcAddress_v2"}, {address_of(&berth_sim_cuGetProcAddress_v2), 12000});
  add_nvml(table);
#define BERTH_SIM_ADD_OWN(member, symbol, type) \
  add_plain(table, {#symbol}, {address_of(&berth_sim_##symbol)});
  BERTH_SIM_ONLY_FUNCTIONS(BERTH_SIM_ADD_OWN)
#undef BERTH_SIM_ADD_OWN
#define BERTH_SIM_ADD_OWN(symbol, type) \
  add_plain(table, {#symbol}, {address_of(&berth_sim_##symbol)});
  BERTH_SIM_PROGRAM_FUNCTIONS(BERTH_SIM_ADD_OWN)
  BERTH_SIM_KERNEL_FUNCTIONS(BERTH_SIM_ADD_OWN)
#undef BERTH_SIM_ADD_OWN
}

/// Calls may come during the end of the process, and in a forked child.
const Table& table() {
  static constinit PerProcess<Directory> directory;
  return directory.get().table;
}

Entry find(std::string_view symbol) {
  const auto found = table().find(symbol);
  return found == table().end() ? Entry{} : found->second;
}

/// The older ABI that existed in `version`; no address if `symbol` has none.
Entry find_older(std::string_view symbol, int version) {
  const Entry newest = find(symbol);
  if (newest.since <= version) return {};
#define BERTH_SIM_FIND_OLDER(name, since) \
  if (symbol == #name)                    \
    return {address_of(&berth_sim_##name##_v1), since, find(#name "_ptsz").address};
  BERTH_SIM_OLDER_FUNCTIONS(BERTH_SIM_FIND_OLDER)
#undef BERTH_SIM_FIND_OLDER
  return {};
}

/// The function that the base name `symbol` means in a program compiled for CUDA `version`.
Entry find_for(std::string_view symbol, int version) {
  if (symbol == "cuGetProcAddress" && version >= 12000) symbol = "cuGetProcAddress_v2";
  if (const Entry older = find_older(symbol, version); older.address != nullptr) return older;
  const bool is_base_name = symbol.starts_with("cu") || symbol.starts_with("berthSim");
  return is_base_name ? find(symbol) : Entry{};
}

/// A function without simulation.
struct Unsupported {
  std::string_view symbol;
  int since;
  CUresult (*address)();
};

constexpr Unsupported kUnsupported[] = {
#define BERTH_SIM_ROW(symbol, since) {#symbol, since, &berth_sim_unsupported_##symbol},
    BERTH_SIM_UNSUPPORTED(BERTH_SIM_ROW)
#undef BERTH_SIM_ROW
};

bool is_per_thread(std::string_view symbol) {
  return symbol.ends_with("_ptsz") || symbol.ends_with("_ptds");
}

std::string_view base_name(std::string_view symbol) {
  if (is_per_thread(symbol)) symbol.remove_suffix(5);
  const bool has_version = symbol[symbol.size() - 3] == '_' && symbol[symbol.size() - 2] == 'v';
  if (has_version) symbol.remove_suffix(3);
  return symbol;
}

/// The newest ABI without simulation that existed in `version`, or else the oldest one.
Entry find_unsupported(std::string_view symbol, int version, bool per_thread) {
  const Unsupported* found = nullptr;
  const auto is_better = [&](const Unsupported& row) {
    if (found == nullptr) return true;
    const bool existed = row.since <= version;
    if (existed != (found->since <= version)) return existed;
    if (row.since != found->since) return existed == (row.since > found->since);
    return is_per_thread(row.symbol) == per_thread;
  };
  for (const Unsupported& row : kUnsupported) {
    const bool is_form =
        base_name(row.symbol) == symbol && (per_thread || !is_per_thread(row.symbol));
    if ((is_form || row.symbol == symbol) && is_better(row)) found = &row;
  }
  return found == nullptr ? Entry{} : Entry{address_of(found->address), found->since};
}

/// Whether the simulated driver version has it.
bool is_in_driver(const Entry& entry) {
  return entry.address != nullptr && entry.since <= simulated_driver_version();
}

}  // namespace

// Without the functions that are not simulated, so that a Runtime treats them as missing.
void* resolve(const char* symbol) noexcept {
  if (symbol == nullptr) return nullptr;
  const Entry entry = find(symbol);
  return is_in_driver(entry) ? entry.address : nullptr;
}

const char* function_name(Function function) noexcept {
  static constexpr const char* kNames[] = {
#define BERTH_SIM_NAME(symbol, names, since) #symbol,
      BERTH_SIM_FUNCTIONS(BERTH_SIM_NAME)
#undef BERTH_SIM_NAME
  };
  return function == Function::count ? "a kernel" : kNames[static_cast<std::size_t>(function)];
}

CUresult berth_sim_cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                       cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
  if (version > simulated_driver_version()) return CUDA_ERROR_INVALID_VALUE;
  Entry entry = find_for(symbol, version);
  if (flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && entry.per_thread != nullptr)
    entry = {entry.per_thread, std::max(entry.since, kPerThreadFormsSince)};
  if (!is_in_driver(entry) || entry.since > version) {
    const bool per_thread = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const Entry other = find_unsupported(symbol, version, per_thread);
    const bool is_older = entry.address == nullptr || other.since <= version;
    if (other.address != nullptr && is_older) entry = other;
  }
  const bool in_driver = is_in_driver(entry);
  const bool in_version = in_driver && entry.since <= version;
  *function = in_version ? entry.address : nullptr;
  if (status != nullptr)
    *status = in_version  ? CU_GET_PROC_ADDRESS_SUCCESS
              : in_driver ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

CUresult berth_sim_cuGetProcAddress(const char* symbol, void** function, int version,
                                    cuuint64_t flags) {
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result = berth_sim_cuGetProcAddress_v2(symbol, function, version, flags, &status);
  if (result != CUDA_SUCCESS) return result;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace berth::sim

void* berth_sim_resolve(const char* symbol) noexcept {
  return berth::sim::resolve(symbol);
}
