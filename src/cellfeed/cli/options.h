// Options that several verbs share, added with the same words and checks everywhere.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "cellfeed/cli/session.h"
#include "cellfeed/collection/collection.h"
#include "cellfeed/format/h5ad/h5ad_writer.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::cli {

// --json and --quiet.
void add_output_options(CLI::App& verb, Session& session);
// --threads; the number stays 0 where it is not given.
void add_threads_option(CLI::App& verb, int& threads, const std::string& what);
// --threads and --memory-budget.
void add_resource_options(CLI::App& verb, int& threads, std::int64_t& memory_budget);
// A size such as "2GB"; take refuses by throwing kInvalidArgument.
CLI::Option* add_size_option(CLI::App& verb, const std::string& name,
                             const std::function<void(std::int64_t)>& take,
                             const std::string& help);
// --memory-budget; the default named is the value given.
void add_memory_budget_option(CLI::App& verb, std::int64_t& memory_budget);
// --join; empty where it is not given.
void add_join_option(CLI::App& verb, std::string& join);
// Where rows of matrices that are stored otherwise are kept.
struct CacheArguments {
  std::string dir;  // "": see RowCacheOptions
  bool is_refused = false;
};
// --cache-dir and --no-cache.
void add_cache_options(CLI::App& verb, CacheArguments& cache);
// Null where the cache is refused. Says what is written, and how far it is, on stderr unless quiet.
// Inputs in buckets are cached whole where a folder is named. Lifetime: the session outlives it.
format::RowMaker row_maker(const Session& session, const CacheArguments& cache,
                           const std::vector<std::string>& inputs);
// --layer. may_be_none: the verb reads obs alone as well.
void add_layer_option(CLI::App& verb, std::string& layer, bool may_be_none = false);
void add_var_key_option(CLI::App& verb, std::vector<std::string>& keys);
// --obs and --exclude-obs.
void add_obs_options(CLI::App& verb, convert::ObsChoice& obs);
// Says on stderr what of the files is left out though nobody chose that.
void warn_left_out(const collection::Collection& cells);
// --genome, --feature-type, --modality, --transpose, --genes-column, --values-column, --var and
// --obs-columns.
void add_choice_options(CLI::App& verb, format::FileChoice& choice);
// --seed, a whole number below 2^64; what it is of belongs into help.
CLI::Option* add_seed_option(CLI::App& verb, std::uint64_t& seed, const std::string& help);
// --compression.
void add_compression_option(CLI::App& verb, format::h5ad::Compression& compression);

}  // namespace cellfeed::cli
