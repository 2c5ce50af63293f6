#include "cellfeed/format/shard/obs/obs_file_writer.h"

#include <arrow/api.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/byte_size.h>
#include <parquet/arrow/writer.h>

#include "cellfeed/base/error.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/format/shard/arrow_file.h"
#include "cellfeed/format/shard/decoded_bytes.h"
#include "cellfeed/format/shard/obs/fixed_obs_builder.h"
#include "cellfeed/format/shard/parquet_file.h"

namespace cellfeed::format::shard {

struct ObsFileWriter::State {
  struct FixedColumnBuilder {
    int column;
    FixedObsBuilder builder;
  };

  State(const io::FileTarget& stem, std::shared_ptr<arrow::Schema> s, bool keeps_sizes)
      : schema(std::move(s)),
        keeps_library_sizes(keeps_sizes),
        parquet_sink(std::make_shared<ChecksummedSink>(stem.with_suffix(".parquet"))),
        fixed_sink(std::make_shared<ChecksummedSink>(stem.with_suffix(".arrow"))),
        parquet(open_parquet_writer(schema, parquet_sink)),
        fixed(make_fixed_builders(*schema)) {}

  static std::vector<FixedColumnBuilder> make_fixed_builders(const arrow::Schema& schema) {
    std::vector<FixedColumnBuilder> builders;
    for (int i = 0; i < schema.num_fields(); ++i)
      if (is_fixed_width(*schema.field(i)))
        builders.push_back({i, FixedObsBuilder(schema.field(i))});
    return builders;
  }

  // Writes `rows` of the pending ones as one row group.
  void write_row_group(std::int64_t rows) {
    auto table = arrow_value(arrow::ConcatenateTables(pending), "", ErrorKind::kInternal);
    const auto rest = table->Slice(rows);
    table = arrow_value(arrow::DictionaryUnifier::UnifyTable(*table->Slice(0, rows)), "",
                        ErrorKind::kUnsupported);
    table = arrow_value(table->CombineChunks(), "", ErrorKind::kInternal);
    parquet_sink->check(parquet->WriteTable(*table, kObsRowGroupRows));
    pending.clear();
    if (rest->num_rows() > 0) pending.push_back(rest);
    n_pending = rest->num_rows();
  }

  // What only the Parquet file has of these rows, decoded.
  void count_text_bytes(const arrow::Table& obs) {
    for (int i = 0; i < obs.num_columns(); ++i)
      if (!is_fixed_width(*obs.field(i)))
        text_bytes += arrow_value(arrow::util::ReferencedBufferSize(*obs.column(i)), "",
                                  ErrorKind::kInternal);
  }

  // That what is written can be read again.
  void check_text_bytes() const {
    const std::int64_t file_bytes = arrow_value(parquet_sink->Tell(), "", ErrorKind::kInternal);
    const std::int64_t most = max_written_bytes(file_bytes, n_cells, schema->num_fields());
    if (text_bytes > most)
      throw_error(ErrorKind::kUnsupported, parquet_sink->path(),
                  "the texts of obs take {} bytes, and those of a shard of {} cells may take {}: "
                  "ask for smaller shards, or make columns of repeated long texts categorical",
                  text_bytes, n_cells, most);
  }

  void finish_library_sizes(arrow::FieldVector& fields, arrow::ArrayVector& arrays) {
    if (std::ssize(library_sizes) != n_cells || schema->GetFieldIndex(kLibrarySizeColumn) >= 0)
      throw Error(ErrorKind::kInternal, fmt::format("{} library sizes for {} cells of a shard",
                                                    library_sizes.size(), n_cells));
    fields.push_back(arrow::field(kLibrarySizeColumn, arrow::float64(), /*nullable=*/false));
    arrays.push_back(std::make_shared<arrow::DoubleArray>(
        n_cells, arrow::Buffer::FromVector(std::move(library_sizes))));
  }

  FileEntry finish_fixed() {
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    for (auto& [column, builder] : fixed) {
      auto finished = builder.finish();
      fields.push_back(finished.field);
      arrays.push_back(finished.array);
    }
    if (keeps_library_sizes) finish_library_sizes(fields, arrays);
    const auto fixed_schema = arrow::schema(std::move(fields), schema->metadata());
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.alignment = 64;
    options.use_threads = false;
    auto writer = arrow::ipc::MakeFileWriter(fixed_sink, fixed_schema, options);
    fixed_sink->check(writer.status());
    fixed_sink->check((*writer)->WriteRecordBatch(
        *arrow::RecordBatch::Make(fixed_schema, n_cells, std::move(arrays))));
    fixed_sink->check((*writer)->Close());
    return fixed_sink->commit();
  }

  std::shared_ptr<arrow::Schema> schema;
  bool keeps_library_sizes;
  std::vector<double> library_sizes;
  std::shared_ptr<ChecksummedSink> parquet_sink;
  std::shared_ptr<ChecksummedSink> fixed_sink;
  std::unique_ptr<parquet::arrow::FileWriter> parquet;
  std::vector<FixedColumnBuilder> fixed;
  std::vector<std::shared_ptr<arrow::Table>> pending;
  std::int64_t n_pending = 0;
  std::int64_t n_cells = 0;
  std::int64_t text_bytes = 0;
};

ObsFileWriter::ObsFileWriter(const io::FileTarget& stem, std::shared_ptr<arrow::Schema> schema,
                             bool keeps_library_sizes)
    : state_(std::make_unique<State>(stem, std::move(schema), keeps_library_sizes)) {}
ObsFileWriter::~ObsFileWriter() = default;
ObsFileWriter::ObsFileWriter(ObsFileWriter&&) noexcept = default;

std::int64_t ObsFileWriter::n_cells() const { return state_->n_cells; }

void ObsFileWriter::append(const std::shared_ptr<arrow::Table>& obs) {
  State& s = *state_;
  if (!obs->schema()->Equals(*s.schema, false))
    throw Error(ErrorKind::kInternal,
                "obs does not have the schema of its shard; bring it there with conform_obs()");
  for (auto& [column, builder] : s.fixed)
    for (const auto& chunk : obs->column(column)->chunks()) builder.append(*chunk);
  s.n_cells += obs->num_rows();
  if (obs->num_rows() == 0) return;
  s.count_text_bytes(*obs);
  s.pending.push_back(obs);
  s.n_pending += obs->num_rows();
  while (s.n_pending >= kObsRowGroupRows) s.write_row_group(kObsRowGroupRows);
}

void ObsFileWriter::append_library_sizes(std::span<const double> sizes) {
  auto& kept = state_->library_sizes;
  kept.insert(kept.end(), sizes.begin(), sizes.end());
}

void ObsFileWriter::finish(ShardEntry& entry) {
  State& s = *state_;
  if (s.n_pending > 0) s.write_row_group(s.n_pending);
  s.parquet_sink->check(s.parquet->Close());
  s.check_text_bytes();
  entry.obs = s.parquet_sink->commit();
  entry.fixed_obs = s.finish_fixed();
}

}  // namespace cellfeed::format::shard
