#include "cellfeed/format/shard/genes_file.h"

#include <arrow/api.h>
#include <arrow/util/byte_size.h>

#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/decoded_bytes.h"
#include "cellfeed/format/shard/gene_categories.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/format/shard/parquet_file.h"
#include "cellfeed/format/shard/shard_directory.h"

namespace cellfeed::format::shard {
namespace {

// Calls take(gene, name) for each gene that has a text in the column.
template <typename Take>
void for_each_text(const arrow::ChunkedArray& column, const char* name, const std::string& path,
                   const Take& take) {
  std::int64_t gene = 0;
  for (const auto& chunk : column.chunks()) {
    if (chunk->type_id() != arrow::Type::STRING)
      throw_error(ErrorKind::kCorruptData, path, "'{}' must hold text, not {}", name,
                  chunk->type()->ToString());
    const auto& texts = static_cast<const arrow::StringArray&>(*chunk);
    for (std::int64_t i = 0; i < texts.length(); ++i, ++gene)
      if (texts.IsValid(i)) take(gene, texts.GetString(i));
  }
}

std::vector<std::int64_t> read_positions(const arrow::ChunkedArray& column,
                                         const std::string& path) {
  std::vector<std::int64_t> positions;
  for (const auto& chunk : column.chunks()) {
    if (chunk->type_id() != arrow::Type::INT64)
      throw_error(ErrorKind::kCorruptData, path, "'{}' must hold int64, not {}",
                  kOriginalPositionColumn, chunk->type()->ToString());
    const auto& values = static_cast<const arrow::Int64Array&>(*chunk);
    positions.insert(positions.end(), values.raw_values(), values.raw_values() + values.length());
  }
  return positions;
}

void check_positions(const std::vector<std::int64_t>& positions, const std::string& path) {
  std::vector<bool> seen(positions.size(), false);
  for (std::size_t gene = 0; gene < positions.size(); ++gene) {
    const std::int64_t position = positions[gene];
    if (position < 0 || position >= std::ssize(positions) || seen[position])
      throw_error(ErrorKind::kCorruptData, path,
                  "'{}' is no order of the {} genes: gene {} has position {}, which is outside or "
                  "taken",
                  kOriginalPositionColumn, positions.size(), gene, position);
    seen[position] = true;
  }
}

std::shared_ptr<arrow::Table> without_column(const std::shared_ptr<arrow::Table>& table,
                                             const char* name, const std::string& path) {
  const int index = table->schema()->GetFieldIndex(name);
  if (index < 0) return table;
  return arrow_value(table->RemoveColumn(index), path, ErrorKind::kInternal);
}

std::shared_ptr<arrow::Table> with_column(const std::shared_ptr<arrow::Table>& table,
                                          const char* name, arrow::ArrayBuilder& builder,
                                          bool is_nullable, const std::string& path) {
  const auto values = arrow_value(builder.Finish(), path, ErrorKind::kInternal);
  return arrow_value(
      table->AddColumn(table->num_columns(), arrow::field(name, values->type(), is_nullable),
                       std::make_shared<arrow::ChunkedArray>(values)),
      path, ErrorKind::kInternal);
}

// That what is written can be read again.
void check_table_size(const arrow::Table& table, const std::string& dir) {
  const std::int64_t bytes =
      arrow_value(arrow::util::ReferencedBufferSize(table), dir, ErrorKind::kInternal);
  if (const std::int64_t most = max_written_bytes(0, table.num_rows(), table.num_columns());
      bytes > most)
    throw_error(ErrorKind::kUnsupported, dir,
                "the gene table takes {} bytes, and one of {} genes and {} columns may take {}: "
                "drop var columns of long texts",
                bytes, table.num_rows(), table.num_columns(), most);
}

}  // namespace

FileEntry write_genes(const io::Directory& directory, const std::shared_ptr<arrow::Table>& var,
                      std::span<const std::int64_t> original_position,
                      const matrix::RepeatedNames& repeated, Generation generation) {
  const std::string& dir = directory.path();
  if (var->num_columns() == 0 || var->field(0)->name() != kIndexColumn)
    throw_invalid("the gene table must begin with the column '{}'", kIndexColumn);
  if (var->num_rows() != static_cast<std::int64_t>(original_position.size()))
    throw_invalid("every gene needs an original position: {} for {} genes",
                  original_position.size(), var->num_rows());
  // Whoever made a file of another directory's table may have brought its columns along.
  auto table = without_column(var, kOriginalPositionColumn, dir);
  table = without_column(table, kRepeatedNameColumn, dir);
  arrow::Int64Builder positions;
  if (!original_position.empty())
    check_arrow(positions.AppendValues(original_position.data(), var->num_rows()), dir,
                ErrorKind::kInternal);
  table = with_column(table, kOriginalPositionColumn, positions, false, dir);
  if (!repeated.empty()) {
    arrow::StringBuilder names;
    for (std::int64_t gene = 0; gene < var->num_rows(); ++gene) {
      const auto it = repeated.find(gene);
      check_arrow(it == repeated.end() ? names.AppendNull() : names.Append(it->second), dir,
                  ErrorKind::kInternal);
    }
    table = with_column(table, kRepeatedNameColumn, names, true, dir);
  }
  table = arrow_value(arrow::DictionaryUnifier::UnifyTable(*table), dir, ErrorKind::kUnsupported);
  table = note_categories(arrow_value(table->CombineChunks(), dir, ErrorKind::kInternal), dir);
  check_table_size(*table, dir);
  const auto sink =
      std::make_shared<ChecksummedSink>(io::FileTarget(directory, genes_name(generation)));
  const auto writer = open_parquet_writer(table->schema(), sink);
  if (table->num_rows() > 0) sink->check(writer->WriteTable(*table, table->num_rows()));
  sink->check(writer->Close());
  return sink->commit();
}

Genes read_genes(const ShardDirectory& directory) {
  const Manifest& manifest = directory.manifest();
  const std::string path = directory.path_of(manifest.genes);
  const auto file = directory.map(manifest.genes);
  auto table = file->checked(
      [&] { return ParquetFile(as_buffer(file), manifest.n_genes, "genes", path).read_all(); });
  table = restore_categories(table, path);
  const auto index = table->GetColumnByName(kIndexColumn);
  const auto positions = table->GetColumnByName(kOriginalPositionColumn);
  for (const auto& column : {index, positions})
    if (column && column->null_count() > 0)
      throw_error(ErrorKind::kCorruptData, path, "{} names or positions of genes are missing",
                  column->null_count());
  if (!index || !positions)
    throw_error(ErrorKind::kCorruptData, path, "a column is missing: '{}'",
                index ? kOriginalPositionColumn : kIndexColumn);
  Genes genes{{}, read_positions(*positions, path), nullptr};
  for_each_text(*index, kIndexColumn, path, [&](std::int64_t, std::string name) {
    genes.axis.names.push_back(std::move(name));
  });
  if (genes.axis.size() != manifest.n_genes)
    throw_error(ErrorKind::kCorruptData, path, "{} genes where the manifest says {}",
                genes.axis.size(), manifest.n_genes);
  if (const auto names = table->GetColumnByName(kRepeatedNameColumn))
    for_each_text(*names, kRepeatedNameColumn, path, [&](std::int64_t gene, std::string name) {
      genes.axis.repeated.emplace(gene, std::move(name));
    });
  check_positions(genes.original_position, path);
  if (gene_fingerprint(genes.axis.names) != manifest.gene_fingerprint)
    throw_error(ErrorKind::kCorruptData, path,
                "these are not the genes of this directory: their names or order differ from the "
                "manifest's");
  genes.var = without_column(without_column(table, kOriginalPositionColumn, path),
                             kRepeatedNameColumn, path);
  return genes;
}

}  // namespace cellfeed::format::shard
