#include "cellfeed/convert/info.h"

#include <arrow/api.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/dtype.h"
#include "cellfeed/base/error.h"
#include "cellfeed/collection/gene_keys.h"
#include "cellfeed/collection/left_out.h"
#include "cellfeed/convert/cache/row_cache.h"
#include "cellfeed/convert/inputs/carried_annotations.h"
#include "cellfeed/convert/inputs/table_union.h"
#include "cellfeed/convert/matrix_uses.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/shard_store.h"

namespace cellfeed::convert {
namespace {

std::string shown_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
      return "string";
    case arrow::Type::FLOAT:
      return "float32";
    case arrow::Type::DOUBLE:
      return "float64";
    default:
      return type.ToString();
  }
}

std::vector<ColumnDescription> describe_columns(const TableUnion& table,
                                                const arrow::Table& sample) {
  const auto united = table.conform(sample, 0);
  std::vector<ColumnDescription> columns;
  for (int i = 0; i < united->num_columns(); ++i) {
    const auto& field = *united->field(i);
    if (field.name() == "_index") continue;
    ColumnDescription column{field.name(), shown_type(*field.type()), -1, false};
    if (field.type()->id() == arrow::Type::DICTIONARY) {
      column.type = "categorical";
      column.ordered = static_cast<const arrow::DictionaryType&>(*field.type()).ordered();
      if (united->column(i)->num_chunks() > 0)
        column.n_categories =
            static_cast<const arrow::DictionaryArray&>(*united->column(i)->chunk(0))
                .dictionary()
                ->length();
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

void add_matrix(PathDescription& description, const format::shard::Manifest& manifest,
                const format::shard::MatrixEntry& matrix) {
  const bool dense = matrix.layout == format::shard::Layout::kDense;
  MatrixInFile& added = description.matrices.emplace_back();
  added.stored.name = matrix.name;
  added.stored.encoding = dense ? "dense" : "packed";
  added.stored.value_dtype = dtype_name(matrix.value_dtype);
  added.stored.shape = {manifest.n_cells, matrix.n_cols};
  added.stored.nnz = matrix.nnz;
  added.stored.filters = "none";
}

void describe_shard_dir(const std::string& path, PathDescription& description) {
  const format::shard::Manifest manifest = format::shard::read_manifest(path);
  description.layout = manifest.layout == format::shard::Layout::kDense ? "dense" : "packed";
  description.n_shards = std::ssize(manifest.shards);
  description.shard_size = manifest.shard_size;
  description.gene_order =
      manifest.gene_order == format::shard::GeneOrder::kMean ? "mean" : "source";
  description.processing_json = manifest.processing_json;
  description.selection_json = manifest.selection_json;
  description.sources = manifest.sources;
  for (std::size_t a = 0; a < manifest.appends.size(); ++a) {
    const format::shard::AppendEntry& append = manifest.appends[a];
    description.appends.push_back({append.first_cell, n_cells_of_append(manifest, a),
                                   append.n_sources, append.is_shuffled, append.selection_json});
  }
  if (!manifest.matrices.empty())
    add_matrix(description, manifest,
               {"X", manifest.layout, manifest.n_genes, manifest.nnz, manifest.value_dtype});
  for (const auto& matrix : manifest.matrices) add_matrix(description, manifest, matrix);
  description.nnz = manifest.nnz;
  description.bytes = 0;  // the manifest names every file of the stores and more
  for (const auto* file : common_files(manifest)) description.bytes += file->bytes;
  description.matrix_bytes = 0;
  description.not_finite = 0;
  for (const auto& shard : manifest.shards) {
    description.matrix_bytes += shard.matrix.bytes;
    description.bytes += bytes_of(shard);
    description.not_finite += shard.not_finite;
  }
}

// Of shards in a random order, these cells are not in it.
std::string appends_text(const PathDescription& d) {
  if (d.appends.empty()) return {};
  std::string text = fmt::format("appended      {} of {} cells, behind the others\n",
                                 d.n_cells - d.appends.front().first_cell, d.n_cells);
  for (const AppendDescription& append : d.appends)
    text += fmt::format(
        "  cells {} to {}, of {} {}, {}{}\n", append.first_cell, append.first_cell + append.n_cells,
        append.n_sources, append.n_sources == 1 ? "source" : "sources",
        append.is_shuffled ? "shuffled among themselves" : "in order",
        append.selection_json == "{}" ? "" : ", selection " + append.selection_json);
  return text;
}

nlohmann::ordered_json appends_json(const PathDescription& d) {
  auto list = nlohmann::ordered_json::array();
  for (const AppendDescription& append : d.appends)
    list.push_back({{"first_cell", append.first_cell},
                    {"n_cells", append.n_cells},
                    {"n_sources", append.n_sources},
                    {"shuffled", append.is_shuffled},
                    {"selection", nlohmann::json::parse(append.selection_json)}});
  return list;
}

std::string column_text(const ColumnDescription& column) {
  if (column.n_categories < 0) return fmt::format("  {} ({})\n", column.name, column.type);
  return fmt::format("  {} ({}{}, {} {})\n", column.name, column.ordered ? "ordered " : "",
                     column.type, column.n_categories,
                     column.n_categories == 1 ? "category" : "categories");
}

std::string columns_text(const char* what, const std::vector<ColumnDescription>& columns,
                         const std::string& refused) {
  if (!refused.empty()) return fmt::format("{} columns   refused: {}\n", what, refused);
  std::string text = fmt::format("{} columns   {}\n", what, columns.size());
  for (const auto& column : columns) text += column_text(column);
  return text;
}

// What the data is at fault for; throws all else.
template <typename Read>
std::string reason_of_failure(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorruptData && error.kind() != ErrorKind::kUnsupported) throw;
    return error.what();
  }
  return {};
}

nlohmann::ordered_json column_json(const ColumnDescription& column) {
  nlohmann::ordered_json json = {{"name", column.name}, {"type", column.type}};
  if (column.n_categories >= 0) {
    json["n_categories"] = column.n_categories;
    json["ordered"] = column.ordered;
  }
  return json;
}

// The matrix that was asked for, else the first that can be read, else obs alone: then refused says
// why.
std::vector<std::unique_ptr<format::RowStore>> open_readable(const std::string& path,
                                                             format::OpenOptions& open,
                                                             PathDescription& description) {
  try {
    return format::open_stores(path, open);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kCancelled) throw;
    const auto& matrices = description.matrices;
    const auto is_of_genes = [](const auto& m) { return !format::is_obsm(m.stored.name); };
    const auto readable = std::find_if(matrices.begin(), matrices.end(), [&](const auto& matrix) {
      return matrix.use != MatrixUse::kRefused && is_of_genes(matrix);
    });
    const bool has_none = std::none_of(matrices.begin(), matrices.end(), is_of_genes);
    if (has_none ? error.kind() != ErrorKind::kNoSuchKey : readable == matrices.end()) throw;
    description.refused = error.what();
    open.layer = has_none ? format::kNoLayer : readable->stored.name;
  }
  return format::open_stores(path, open);
}

// Throws kNoSuchKey where there is no such column.
void describe_gene_names(const format::RowStore& store, const std::vector<std::string>& var_keys,
                         PathDescription& description) {
  auto names = collection::keys_of_genes(store, var_keys);
  std::ranges::sort(names);
  for (std::size_t i = 1; i < names.size(); ++i)
    if (names[i] == names[i - 1] && (i == 1 || names[i - 2] != names[i]))
      description.repeated_genes.push_back(names[i]);
  description.n_gene_names = std::unique(names.begin(), names.end()) - names.begin();
}

std::string gene_names_text(const PathDescription& d) {
  if (d.n_gene_names < 0) return {};
  std::string text = fmt::format("gene names    {} by --var-key", d.n_gene_names);
  if (d.repeated_genes.empty()) return text + "\n";
  constexpr std::size_t kShown = 5;
  const auto shown = std::span(d.repeated_genes).first(std::min(kShown, d.repeated_genes.size()));
  return text + fmt::format("; {} of them are of several genes: {}{}\n", d.repeated_genes.size(),
                            fmt::join(shown, ", "),
                            d.repeated_genes.size() > kShown ? ", ..." : "");
}

template <typename T>
nlohmann::json known(T value) {
  return value < 0 ? nlohmann::json(nullptr) : nlohmann::json(value);
}

}  // namespace

PathDescription describe_path(const std::string& path, const format::OpenOptions& options,
                              const std::vector<std::string>& var_keys) {
  format::OpenOptions open = options;
  PathDescription description;
  open.row_maker = [&](std::unique_ptr<format::EntryStore> entries, const format::OpenOptions&) {
    const RowCache cache({});
    description.storage = entries->storage();
    description.row_cache = cache.directory_of(*entries);
    description.has_cached_rows = cache.has_rows(*entries);
    std::vector<std::unique_ptr<format::RowStore>> only;
    only.push_back(std::move(entries));
    return only;
  };
  description.matrices = describe_matrices(path, options);
  const auto stores = open_readable(path, open, description);
  format::require_obs_columns(stores, options.choice);
  description.path = path;
  TableUnion obs("obs"), var("var");
  std::shared_ptr<arrow::Table> sample;
  std::set<std::string> compressions;
  for (const auto& store : stores) {
    const format::StoreInfo& info = store->info();
    description.n_cells += info.n_rows;
    description.bytes += info.bytes_on_disk;
    description.nnz = info.nnz < 0 ? -1 : std::max<std::int64_t>(description.nnz, 0) + info.nnz;
    description.rows_per_chunk = std::max(description.rows_per_chunk, info.rows_per_chunk);
    compressions.insert(info.compression);
    if (!description.obs_refused.empty()) continue;
    description.obs_refused = reason_of_failure([&] {
      auto rows = store->read_obs(0, std::min<std::int64_t>(1, info.n_rows));
      obs.add_source(*rows, info.path);
      if (!sample) sample = rows;
    });
  }
  const format::StoreInfo& first = stores.front()->info();
  description.format = first.format;
  description.layer = first.layer;
  description.root = first.root;
  description.left_out = first.left_out;
  const auto store = [&](std::int64_t s) -> const format::RowStore& {
    return *stores[static_cast<std::size_t>(s)];
  };
  add_sentence(
      description.left_out,
      collection::find_unreadable(std::ssize(stores), store, collection::read_no_obs).text);
  description.columns = first.columns;
  description.layout = first.layer == format::kNoLayer ? "obs alone"
                       : !description.storage.empty()  ? "not by rows"
                       : first.is_dense                ? "dense"
                                                       : "csr";
  description.n_genes = first.n_cols;
  description.value_dtype = dtype_name(first.value_dtype);
  for (const std::string& compression : compressions)
    description.compression += (description.compression.empty() ? "" : ", ") + compression;
  description.matrix_bytes = description.bytes;
  if (description.obs_refused.empty()) {
    obs.finish();
    description.obs = describe_columns(obs, *sample);
  }
  if (!var_keys.empty()) describe_gene_names(*stores.front(), var_keys, description);
  description.var_refused = reason_of_failure([&] {
    const auto genes = stores.front()->read_var();
    var.add_source(*genes, path);
    var.finish();
    description.var = describe_columns(var, *genes);
  });
  if (format::shard::is_shard_dir(path)) describe_shard_dir(path, description);
  if (description.nnz > 0) {
    description.bits_per_nonzero =
        8 * static_cast<double>(description.matrix_bytes) / static_cast<double>(description.nnz);
    description.density =
        static_cast<double>(description.nnz) /
        (static_cast<double>(description.n_cells) * static_cast<double>(description.n_genes));
  }
  return description;
}

std::string description_text(const PathDescription& d) {
  std::string text = fmt::format("path          {}\n", d.path);
  text += fmt::format("format        {} ({})\n", d.format, d.layout);
  if (!d.refused.empty()) text += fmt::format("refused       {}\n", d.refused);
  if (!d.root.empty()) text += fmt::format("AnnData at    {}\n", d.root);
  text += fmt::format("layer         {}\n", d.layer);
  text += fmt::format("cells         {}\n", d.n_cells);
  text += fmt::format("genes         {}\n", d.n_genes);
  text += gene_names_text(d);
  if (!d.columns.empty()) text += fmt::format("columns       {}\n", d.columns);
  if (!d.left_out.empty()) text += fmt::format("left out      {}\n", d.left_out);
  if (d.nnz >= 0) text += fmt::format("non-zeros     {}\n", d.nnz);
  if (d.density >= 0 && d.n_cells > 0)
    text += fmt::format("density       {:.2f} % ({:.0f} genes a cell)\n", 100 * d.density,
                        static_cast<double>(d.nnz) / static_cast<double>(d.n_cells));
  text += fmt::format("values        {}\n", d.value_dtype);
  text += fmt::format("compression   {}\n", d.compression);
  text += fmt::format("size          {}\n", format_byte_size(d.bytes));
  if (d.bits_per_nonzero >= 0)
    text += fmt::format("bits a value  {:.2f} per non-zero, index and value\n", d.bits_per_nonzero);
  if (d.rows_per_chunk > 1)
    text += fmt::format("chunks        about {} rows each\n", d.rows_per_chunk);
  if (d.not_finite > 0)
    text += fmt::format("not finite    {} values are NaN or infinite\n", d.not_finite);
  if (!d.storage.empty())
    text += fmt::format(
        "rows          stored {}; cellfeed.open writes them once, as packed shards\n"
        "row cache     {} ({})\n",
        d.storage, d.row_cache.empty() ? "no folder for caches" : d.row_cache,
        d.has_cached_rows ? "ready" : "not there yet");
  if (d.n_shards > 0) {
    text += fmt::format("shards        {} of up to {} cells\n", d.n_shards, d.shard_size);
    text += fmt::format("gene order    {}\n", d.gene_order);
    text += fmt::format("processing    {}\n",
                        d.processing_json == "{}" ? "none recorded" : d.processing_json);
    if (d.selection_json != "{}") text += fmt::format("selection     {}\n", d.selection_json);
    text += fmt::format("sources       {}\n", d.sources.size());
    for (const auto& source : d.sources)
      text += fmt::format("  {} ({}, {} cells)\n", source.path, source.layer, source.n_cells);
    text += appends_text(d);
  }
  if (!d.matrices.empty()) text += matrices_text(d.matrices);
  text += columns_text("obs", d.obs, d.obs_refused);
  text += columns_text("var", d.var, d.var_refused);
  return text;
}

std::string description_json(const PathDescription& d) {
  nlohmann::ordered_json json;
  json["path"] = d.path;
  json["format"] = d.format;
  json["layout"] = d.layout;
  json["root"] = d.root;
  json["layer"] = d.layer;
  if (!d.storage.empty()) {
    json["storage"] = d.storage;
    json["row_cache"] = d.row_cache;
    json["has_cached_rows"] = d.has_cached_rows;
  }
  json["n_cells"] = d.n_cells;
  json["n_genes"] = d.n_genes;
  if (d.n_gene_names >= 0) {
    json["n_gene_names"] = d.n_gene_names;
    json["repeated_genes"] = d.repeated_genes;
  }
  json["columns"] = d.columns;
  json["left_out"] = d.left_out;
  json["refused"] = d.refused;
  json["nnz"] = known(d.nnz);
  json["density"] = known(d.density);
  json["value_dtype"] = d.value_dtype;
  json["compression"] = d.compression;
  json["bytes"] = d.bytes;
  json["bits_per_nonzero"] = known(d.bits_per_nonzero);
  json["rows_per_chunk"] = d.rows_per_chunk;
  json["not_finite"] = known(d.not_finite);
  if (!d.matrices.empty()) json["matrices"] = matrices_json(d.matrices);
  json["obs"] = nlohmann::ordered_json::array();
  for (const auto& column : d.obs) json["obs"].push_back(column_json(column));
  json["obs_refused"] =
      d.obs_refused.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(d.obs_refused);
  json["var_refused"] =
      d.var_refused.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(d.var_refused);
  json["var"] = nlohmann::ordered_json::array();
  for (const auto& column : d.var) json["var"].push_back(column_json(column));
  if (d.n_shards > 0) {
    json["n_shards"] = d.n_shards;
    json["shard_size"] = d.shard_size;
    json["gene_order"] = d.gene_order;
    json["processing"] = nlohmann::json::parse(d.processing_json);
    json["selection"] = nlohmann::json::parse(d.selection_json);
    json["sources"] = nlohmann::ordered_json::array();
    for (const auto& source : d.sources)
      json["sources"].push_back(nlohmann::ordered_json{
          {"path", source.path}, {"layer", source.layer}, {"n_cells", source.n_cells}});
    json["appends"] = appends_json(d);
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cellfeed::convert
