#include "cellfeed/convert/append/append_checks.h"

#include <arrow/api.h>

#include <algorithm>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/obs/shard_obs.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/gene_names.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

constexpr std::int64_t kObsRowsOfCheck = 1 << 16;

// Of each source, once for all that share a map: visit(source).
template <typename Visit>
void for_each_axis(const Sources& sources, Visit&& visit) {
  for (std::int64_t s = 0; s < sources.n_sources(); ++s)
    if (!sources.has_joined_axis(s) &&
        (s == 0 || sources.gene_map_id(s) != sources.gene_map_id(s - 1)))
      visit(s);
}

std::vector<std::string> missing_of(const ShardBase& base, const Sources& sources,
                                    std::int64_t source) {
  std::vector<bool> is_found(base.genes().size(), false);
  for (const std::int32_t gene : sources.gene_map(source))
    if (gene >= 0) is_found[static_cast<std::size_t>(gene)] = true;
  std::vector<std::string> missing;
  for (std::size_t g = 0; g < is_found.size(); ++g)
    if (!is_found[g]) missing.push_back(base.genes()[g]);
  return missing;
}

// Columns of numbers whose united type is another than that of the shards.
std::vector<std::string> changed_numbers(const arrow::Schema& stored, const arrow::Schema& united) {
  std::vector<std::string> changed;
  for (const auto& field : stored.fields()) {
    const auto now = united.GetFieldByName(field->name());
    if (now && !now->type()->Equals(*field->type()) && arrow::is_primitive(field->type()->id()))
      changed.push_back(field->name());
  }
  return changed;
}

void conform_shard(const ShardBase& base, const shard::ShardEntry& entry,
                   const std::vector<std::string>& columns, const TableUnion& obs,
                   std::size_t part) {
  const shard::ShardObs stored(base.directory, entry);
  for (std::int64_t begin = 0; begin < entry.n_cells; begin += kObsRowsOfCheck) {
    const auto rows = stored.read(begin, std::min(entry.n_cells, begin + kObsRowsOfCheck));
    std::vector<int> wanted;
    for (const std::string& name : columns) wanted.push_back(rows->schema()->GetFieldIndex(name));
    obs.conform(*matrix::check_arrow(rows->SelectColumns(wanted), "select columns"), part);
  }
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::ranges::sort(names);
  return names;
}

}  // namespace

void require_same_axis(const ShardBase& base, const InputCells& input) {
  const auto& given = input.cells->genes().names;
  if (given == base.genes()) return;
  const bool is_order = sorted(given) == sorted(base.genes());
  throw_error(ErrorKind::kInvalidArgument, base.dir(),
              "the cells were opened with {}: open the cells with those of the shards "
              "(genes=cellfeed.open(SHARDS).var_names)",
              is_order ? "the genes of these shards in another order"
                       : fmt::format("{} genes, and these shards have {} of their own",
                                     given.size(), base.genes().size()));
}

void require_same_processing(const ShardBase& base, const Sources& sources) {
  const std::string there = format::read_processing(base.manifest.processing_json, base.dir()).json;
  if (there == sources.processing_json()) return;
  throw_error(ErrorKind::kInvalidArgument, sources.store(0).info().path,
              "its values were processed otherwise than those of the shards, and would be mixed: "
              "it says {}, '{}' says {}; process it alike (cellfeed preprocess), or append "
              "cellfeed.open(..., mixed_processing=\"allow\")",
              sources.processing_json(), base.dir(), there);
}

void refuse_extra_genes(const ShardBase& base, const Sources& sources) {
  for_each_axis(sources, [&](std::int64_t s) {
    const auto map = sources.gene_map(s);
    const std::vector<std::string>& names = sources.source_genes(s).names;
    std::vector<std::string> extra;
    for (std::size_t column = 0; column < map.size(); ++column)
      if (map[column] < 0) extra.push_back(names[column]);
    if (!extra.empty())
      throw_error(ErrorKind::kInvalidArgument, sources.store(s).info().path,
                  "{} of its {} genes are not in '{}', whose genes are fixed: {}; leave them out "
                  "with {}, which keeps each cell's total over all of its genes, or write new "
                  "shards of all files with {}",
                  extra.size(), names.size(), base.dir(), matrix::some_names(extra),
                  argument("extra_genes", "drop"), argument("join", "outer"));
  });
}

MissingGenes missing_genes(const ShardBase& base, const Sources& sources) {
  MissingGenes most;
  std::int64_t n_axes = 0;
  for_each_axis(sources, [&](std::int64_t s) {
    const std::vector<std::string> missing = missing_of(base, sources, s);
    const std::string& path = sources.store(s).info().path;
    if (missing.size() == base.genes().size())
      throw_error(ErrorKind::kNoSuchKey, path,
                  "has none of the {} genes of '{}', such as {}; name its genes alike by a column "
                  "of var ({})",
                  missing.size(), base.dir(), matrix::some_names(missing), argument("var_key"));
    n_axes += missing.empty() ? 0 : 1;
    if (std::ssize(missing) <= most.n_genes) return;
    most.n_genes = std::ssize(missing);
    most.text =
        fmt::format("{} of the {} genes of the shards are not in '{}', and are zeros there: {}",
                    missing.size(), base.genes().size(), path, matrix::some_names(missing));
  });
  if (n_axes > 1) most.text += "; other sources lack genes as well";
  return most;
}

void note_other_layer(const ShardBase& base, const Sources& sources,
                      std::vector<std::string>& warnings) {
  const format::StoreInfo& info = sources.store(0).info();
  if (info.format == "shard" || base.manifest.sources.empty()) return;
  const std::string& there = base.manifest.sources.front().layer;
  if (info.layer != there)
    warnings.push_back(fmt::format(
        "{}: its '{}' was appended, and the shards hold '{}' of the sources they were made from: "
        "are these the same kind of values?",
        info.path, info.layer, there));
}

void require_obs_that_fits(const ShardBase& base, const TableUnion& obs) {
  const auto united = obs.schema();
  for (std::size_t part = 0; part < base.obs.size(); ++part) {
    const auto columns = changed_numbers(*base.obs[part].rows->schema(), *united);
    if (columns.empty()) continue;
    for (const shard::ShardEntry& entry : base.manifest.shards)
      if (entry.first_cell >= base.part_begin(part) && entry.first_cell < base.part_end(part))
        conform_shard(base, entry, columns, obs, part);
  }
}

}  // namespace cellfeed::convert
