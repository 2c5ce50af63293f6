#include "cellfeed/cli/options.h"

#include <charconv>
#include <cstdio>
#include <utility>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/convert/cache/row_cache.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::cli {

void add_output_options(CLI::App& verb, Session& session) {
  verb.add_flag("--json", session.json, "Print the result as one JSON object on stdout");
  verb.add_flag("--quiet", session.quiet, "No progress on stderr");
}

void add_threads_option(CLI::App& verb, int& threads, const std::string& what) {
  verb.add_option("--threads", threads, what + " [default: what the machine allows]")
      ->check(whole_number(1, exec::kMaxThreads))
      ->type_name("N");
}

void add_resource_options(CLI::App& verb, int& threads, std::int64_t& memory_budget) {
  add_threads_option(verb, threads, "Threads that read, decode and encode");
  add_memory_budget_option(verb, memory_budget);
}

CLI::Option* add_size_option(CLI::App& verb, const std::string& name,
                             const std::function<void(std::int64_t)>& take,
                             const std::string& help) {
  return verb
      .add_option_function<std::string>(
          name,
          [name, take](const std::string& text) {
            try {
              take(parse_byte_size(text));
            } catch (const Error& error) {
              throw CLI::ValidationError(name, error.what());
            }
          },
          help)
      ->type_name("SIZE");
}

void add_memory_budget_option(CLI::App& verb, std::int64_t& memory_budget) {
  add_size_option(
      verb, "--memory-budget",
      [&memory_budget](std::int64_t bytes) {
        memory_budget = bytes;
        exec::check_memory_budget(memory_budget);
      },
      fmt::format(
          "Memory for work under way and for caches, such as 2GB, 512MB or 1GiB [default: {}]",
          format_byte_size(memory_budget)));
}

void add_join_option(CLI::App& verb, std::string& join) {
  verb.add_option("--join", join,
                  "When inputs differ in genes: inner keeps those of all, outer those of any")
      ->check(one_of({"inner", "outer"}))
      ->type_name("JOIN");
}

void add_cache_options(CLI::App& verb, CacheArguments& cache) {
  CLI::Option* dir = verb.add_option("--cache-dir", cache.dir,
                                     "Folder of the cache: rows of matrices that are not stored by "
                                     "rows (CSC, .mtx), and, if "
                                     "it is named, whole copies of inputs in buckets [default: "
                                     "what CELLFEED_CACHE names, else ~/.cache/cellfeed]")
                         ->type_name("DIR");
  verb.add_flag("--no-cache", cache.is_refused, "Refuse such matrices")->excludes(dir);
}

format::RowMaker row_maker(const Session& session, const CacheArguments& cache,
                           const std::vector<std::string>& inputs) {
  if (cache.is_refused) return {};
  if (!cache.dir.empty()) cloud::cache_in(cache.dir, inputs);
  return [&session, rows = convert::RowCache({.dir = cache.dir})](
             std::unique_ptr<format::EntryStore> store, const format::OpenOptions& options) {
    if (!rows.has_rows(*store)) {
      if (!session.quiet) fmt::print(stderr, "{}\n", rows.announcement(*store));
      ProgressLine line(session.quiet, "cells");
      rows.make_rows(*store, line.callback(), session.stop.get_token(),
                     [&](const std::string& text) {
                       if (!session.quiet) fmt::print(stderr, "{}\n", text);
                     });
    }
    return rows.open_rows(std::move(store), options);
  };
}

void add_layer_option(CLI::App& verb, std::string& layer, bool may_be_none) {
  verb.add_option("--layer", layer,
                  fmt::format("Which matrix: X, raw/X, or the name of a layer{} [default: {}]",
                              may_be_none ? "; none: obs alone" : "",
                              layer.empty() ? "what the shards hold of theirs" : layer))
      ->type_name("NAME");
}

void add_var_key_option(CLI::App& verb, std::vector<std::string>& keys) {
  verb.add_option(
          "--var-key", keys,
          "Column of var that names the genes; given several times, of each input the first "
          "that it has, where _index are the genes' own names")
      ->allow_extra_args(false)
      ->type_name("NAME");
}

void add_obs_options(CLI::App& verb, convert::ObsChoice& obs) {
  verb.add_option("--obs", obs.only,
                  "Column of obs to write; may be given several times [default: all]")
      ->allow_extra_args(false)
      ->type_name("NAME");
  verb.add_option("--exclude-obs", obs.excluded,
                  "Column of obs not to write; may be given several times")
      ->allow_extra_args(false)
      ->type_name("NAME");
}

void warn_left_out(const collection::Collection& cells) {
  const std::string text = cells.left_out_text();
  if (!text.empty()) fmt::print(stderr, "{}\n", text);
}

void add_choice_options(CLI::App& verb, format::FileChoice& choice) {
  verb.add_option("--genome", choice.genome,
                  "Of 10x .h5 files: which genome; needed where a file has a matrix for each")
      ->type_name("NAME");
  verb.add_option("--feature-type", choice.feature_type,
                  "Of 10x files: features of one type, or all [default: Gene Expression]")
      ->type_name("TYPE");
  verb.add_option("--modality", choice.modality,
                  "Of MuData files (.h5mu): which modality, such as rna")
      ->type_name("NAME");
  verb.add_option(
          "--transpose", choice.transpose,
          "Of .mtx files: whether their rows are genes, true or false [default: by the files]")
      ->type_name("BOOL");
  format::TableOptions& table = choice.table;
  verb.add_option("--genes-column", table.genes_column,
                  "Of Parquet tables of lists: the column of the genes of each cell [default: by "
                  "its name]")
      ->type_name("COLUMN");
  verb.add_option("--values-column", table.values_column,
                  "Of Parquet tables of lists: the column of their values [default: by its name]")
      ->type_name("COLUMN");
  verb.add_option("--var", table.var,
                  "Of Parquet tables of lists: a Parquet table with the ids and names of the genes")
      ->type_name("PATH");
  verb.add_option("--obs-columns", table.obs_columns,
                  "Of Parquet tables with a column for each gene: numeric columns that are obs")
      ->delimiter(',')
      ->type_name("COLUMN,...");
}

CLI::Option* add_seed_option(CLI::App& verb, std::uint64_t& seed, const std::string& help) {
  // CLI11 takes -1 and 2^64 as 2^64 - 1.
  return verb
      .add_option_function<std::string>(
          "--seed",
          [&seed](const std::string& text) {
            const char* end = text.data() + text.size();
            const auto [stop, error] = std::from_chars(text.data(), end, seed);
            if (error != std::errc() || stop != end)
              throw CLI::ValidationError(
                  "--seed",
                  fmt::format("must be a whole number from 0 to 2^64 - 1, not '{}'", text));
          },
          help + " [default: 0]")
      ->type_name("N");
}

void add_compression_option(CLI::App& verb, format::h5ad::Compression& compression) {
  verb.add_option_function<std::string>(
          "--compression",
          [&compression](const std::string& name) {
            compression = name == "gzip" ? format::h5ad::Compression::kGzip
                                         : format::h5ad::Compression::kNone;
          },
          "none (fast to read at random) or gzip (smaller) [default: none]")
      ->check(one_of({"none", "gzip"}))
      ->type_name("NAME");
}

}  // namespace cellfeed::cli
