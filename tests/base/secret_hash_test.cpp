// SPDX-License-Identifier: Apache-2.0
#include "base/secret_hash.hpp"

#include <algorithm>
#include <cstdint>
#include <unordered_set>

#include <doctest/doctest.h>

namespace secret_hash_test {

using namespace berth;

namespace {

constexpr std::int64_t kKeys = 4'000;

template <class Set>
std::size_t largest_bucket(const Set& set) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < set.bucket_count(); ++i)
    largest = std::max(largest, set.bucket_size(i));
  return largest;
}

/// Multiples of the number of buckets that so many keys get.
template <class Hash>
std::size_t largest_bucket_of_multiples() {
  std::unordered_set<std::int64_t, Hash> set;
  set.reserve(kKeys);
  const auto step = static_cast<std::int64_t>(set.bucket_count());
  for (std::int64_t i = 0; i < kKeys; ++i) set.insert(i * step);
  return largest_bucket(set);
}

}  // namespace

TEST_CASE("keys that collide under std::hash are spread over buckets") {
  CHECK(largest_bucket_of_multiples<std::hash<std::int64_t>>() == kKeys);  // what is mended
  CHECK(largest_bucket_of_multiples<SecretHash>() < 20);
}

TEST_CASE("consecutive small numbers are spread over buckets") {
  std::unordered_set<std::int64_t, SecretHash> set;
  for (std::int64_t i = 0; i < kKeys; ++i) set.insert(i);
  CHECK(largest_bucket(set) < 20);
}

}  // namespace secret_hash_test
