// What options and the environment say of how a store is reached. Thread-safe.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cellfeed/cloud/http/recent_objects.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::cloud {

// Empty where the variable is not set.
std::string_view environment(const char* name);
// Empty where the option is not given.
std::string_view option(const StorageOptions& options, std::string_view name);
// The first that is not empty; empty where all are.
std::string_view first_of(std::initializer_list<std::string_view> texts);
// Of the option anon.
bool is_anonymous(const StorageOptions& options);
// "http(s)://host(:port)(/path)" without a slash at its end. https
// where no scheme is given. Throws kInvalidArgument naming the setting where it is none.
std::string parse_endpoint(const std::string& path, std::string_view setting,
                           std::string_view text);

// One for each bucket of this process, kept; made anew, and what was learned of the bucket
// forgotten, where options or one of these variables say other things: a notebook sets them after
// it has tried without.
template <typename Access>
std::shared_ptr<const Access> kept_access(std::string_view scheme, const std::string& bucket,
                                          std::span<const char* const> variables) {
  struct Accesses {
    std::mutex mutex;  // guards what follows
    std::map<std::string, std::shared_ptr<const Access>> of_buckets;
    std::string made_for;
  };
  static auto* all = new exec::PerProcess<std::unique_ptr<Accesses>>;
  Accesses& accesses = *all->get([] { return std::make_unique<Accesses>(); });
  const std::scoped_lock lock(accesses.mutex);
  std::string settings = std::to_string(storage_options_version());
  for (const char* name : variables) settings.append(1, '\n').append(environment(name));
  if (accesses.made_for != settings) {
    accesses.of_buckets.clear();
    accesses.made_for = std::move(settings);
  }
  auto& access = accesses.of_buckets[bucket];
  if (!access) {
    access = std::make_shared<const Access>(bucket);
    recent_objects().forget_below(std::string(scheme) + "://" + bucket + "/");
  }
  return access;
}

}  // namespace cellfeed::cloud
