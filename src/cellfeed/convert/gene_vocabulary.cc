#include "cellfeed/convert/gene_vocabulary.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_set>

#include "cellfeed/base/json_depth.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::convert {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMaxVocabularyBytes = 64 << 20;
constexpr std::int64_t kFirstGene = 4;  // numbers below are special tokens
constexpr std::int64_t kVocabularyPieceBytes = 8 << 20;
constexpr std::int64_t kVocabularyPieceCells = 16384;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  throw Error(ErrorKind::kCorruptData, fmt::format("not a gene vocabulary: {}", what), path);
}

std::vector<std::string> names_of_list(const Json& list, const std::string& path) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const Json& name : list) {
    if (!name.is_string()) refuse(path, "a name in the list is not text");
    if (seen.insert(name.get<std::string>()).second) names.push_back(name.get<std::string>());
  }
  return names;
}

std::vector<std::string> names_by_number(const Json& object, const std::string& path) {
  std::map<std::int64_t, std::string> names;
  for (const auto& [name, number] : object.items()) {
    if (!number.is_number_integer() || number.get<std::int64_t>() < kFirstGene)
      refuse(path, fmt::format("the number of gene '{}' must be a whole number of at least {}",
                               name, kFirstGene));
    const auto [at, is_new] = names.emplace(number.get<std::int64_t>(), name);
    if (!is_new)
      refuse(path, fmt::format("genes '{}' and '{}' have one number: {}", at->second, name,
                               number.get<std::int64_t>()));
  }
  std::vector<std::string> genes;
  for (auto& [number, name] : names) genes.push_back(std::move(name));
  return genes;
}

std::vector<std::int64_t> count_cells(const CsrPiece& piece, std::span<const std::int32_t> gene_map,
                                      std::size_t n_genes) {
  std::vector<std::int64_t> counts(n_genes, 0);
  for_each_entry(piece, gene_map, [&](std::int32_t gene, auto value) {
    if (value != decltype(value){}) ++counts[gene];
  });
  return counts;
}

// Of each gene, the cells that have it.
std::vector<std::int64_t> cells_with_gene(const Sources& sources, exec::ThreadPool& pool,
                                          const ConvertOptions& options) {
  const auto pieces =
      sources.split(0, sources.n_cells(), kVocabularyPieceCells, kVocabularyPieceBytes);
  const auto n_genes = static_cast<std::size_t>(sources.genes().size());
  PiecePool buffers;
  std::vector<std::int64_t> counts(n_genes, 0);
  PassedPages pages(sources, options.memory_budget / 8);
  ProgressMeter meter(options.progress, "counting genes", sources.n_cells());
  run_in_order<std::vector<std::int64_t>>(
      pool, std::ssize(pieces), {options.memory_budget / 4, 256},
      [&](std::int64_t i) {
        return sources.plan_bytes(pieces[i]) +
               static_cast<std::int64_t>(n_genes * sizeof(std::int64_t));
      },
      [&](std::int64_t i) {
        const SourceRange& range = pieces[i];
        const auto piece = buffers.acquire();
        read_rows(sources.store(range.source), range.begin, range.end, *piece);
        return count_cells(*piece, sources.gene_map(range.source), n_genes);
      },
      [&](std::int64_t i, std::vector<std::int64_t>&& part) {
        for (std::size_t g = 0; g < n_genes; ++g) counts[g] += part[g];
        pages.passed(pieces[i]);
        meter.advance(pieces[i].n_cells());
      },
      options.stop);
  return counts;
}

}  // namespace

std::vector<std::string> read_gene_vocabulary(const std::string& path) {
  const std::string text = io::read_small_file(path, kMaxVocabularyBytes);
  require_shallow_json(text, path);
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_array() && !json.is_object())
    refuse(path, "it must be a JSON list of names, or an object of names and numbers");
  auto genes = json.is_array() ? names_of_list(json, path) : names_by_number(json, path);
  if (genes.empty()) refuse(path, "it holds no genes");
  return genes;
}

std::vector<std::string> most_detected_genes(const ConvertOptions& options, std::int64_t n) {
  const Sources sources(options.input, {});
  const auto cache = options.input.cells->reserve_cache(options.memory_budget / 4);
  exec::ThreadPool pool(exec::checked_thread_count(options.threads));
  if (!sources.is_by_rows())
    sources.transpose(pool, {.dir = io::FileTarget(options.output_dir).directory(),
                             .memory_bytes = options.memory_budget / 4,
                             .progress = options.progress,
                             .stop = options.stop});
  const auto counts = cells_with_gene(sources, pool, options);
  std::vector<std::int64_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return counts[a] > counts[b]; });
  order.resize(static_cast<std::size_t>(std::min<std::int64_t>(n, std::ssize(order))));
  std::sort(order.begin(), order.end());
  std::vector<std::string> genes;
  for (const std::int64_t gene : order) genes.push_back(sources.genes().names[gene]);
  return genes;
}

}  // namespace cellfeed::convert
