#include "cellfeed/convert/shuffle/obs_scatter.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/api.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/obs/obs_schema.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/take_rows.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;

constexpr const char* kShufflingObs = "shuffle obs";

bool is_dictionary(const arrow::Field& field) {
  return field.type()->id() == arrow::Type::DICTIONARY;
}

std::shared_ptr<arrow::Array> int64_array(std::span<const BucketSlot> slots) {
  arrow::Int64Builder builder;
  matrix::check_arrow(builder.Reserve(std::ssize(slots)), kShufflingObs);
  for (const BucketSlot& slot : slots) builder.UnsafeAppend(slot.slot);
  return matrix::check_arrow(builder.Finish(), kShufflingObs);
}

// Rows that go somewhere, bucket by bucket.
std::vector<std::int64_t> rows_by_bucket(std::span<const BucketSlot> slots) {
  std::vector<std::int64_t> rows;
  rows.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i].bucket >= 0) rows.push_back(static_cast<std::int64_t>(i));
  std::stable_sort(rows.begin(), rows.end(), [&](std::int64_t a, std::int64_t b) {
    return slots[a].bucket < slots[b].bucket;
  });
  return rows;
}

std::shared_ptr<arrow::RecordBatch> as_batch(const arrow::Table& table) {
  return matrix::check_arrow(table.CombineChunksToBatch(), kShufflingObs);
}

}  // namespace

ObsScatter::ObsScatter(const Sources& sources, std::shared_ptr<arrow::Schema> schema)
    : sources_(sources), schema_(std::move(schema)), categories_(schema_->num_fields()) {
  arrow::FieldVector fields;
  for (const auto& field : schema_->fields())
    fields.push_back(
        arrow::field(field->name(), is_dictionary(*field) ? arrow::int32() : field->type()));
  fields.push_back(arrow::field("slot", arrow::int64()));
  plain_schema_ = arrow::schema(std::move(fields));
  if (sources.obs().schema()->GetFieldIndex(shard::kSourceFileColumn) >= 0) return;
  source_file_column_ = schema_->GetFieldIndex(shard::kSourceFileColumn);
  arrow::StringBuilder paths;
  for (std::int64_t s = 0; s < sources.n_sources(); ++s)
    matrix::check_arrow(paths.Append(sources.store(s).info().path), kShufflingObs);
  categories_[source_file_column_] = matrix::check_arrow(paths.Finish(), kShufflingObs);
}

ObsScatter::~ObsScatter() = default;

// The union of the inputs' categories is the same for every range.
void ObsScatter::remember(int column, const std::shared_ptr<arrow::Array>& categories) {
  const std::lock_guard lock(mutex_);
  auto& known = categories_[column];
  if (!known) known = categories;
  if (known != categories && !known->Equals(*categories))
    throw Error(ErrorKind::kInternal,
                fmt::format("two ranges of obs differ in the categories of column '{}'",
                            schema_->field(column)->name()));
}

std::shared_ptr<arrow::Table> ObsScatter::take_apart(const arrow::Table& obs, std::int64_t source,
                                                     std::span<const BucketSlot> slots) {
  arrow::ChunkedArrayVector columns;
  for (int i = 0; i < schema_->num_fields(); ++i) {
    if (i == source_file_column_) {
      const arrow::Int32Scalar number(static_cast<std::int32_t>(source));
      columns.push_back(std::make_shared<arrow::ChunkedArray>(
          matrix::check_arrow(arrow::MakeArrayFromScalar(number, obs.num_rows()), kShufflingObs)));
      continue;
    }
    if (!is_dictionary(*schema_->field(i))) {
      columns.push_back(obs.column(i));
      continue;
    }
    arrow::ArrayVector codes;
    for (const auto& chunk : obs.column(i)->chunks()) {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*chunk);
      remember(i, dictionary.dictionary());
      codes.push_back(dictionary.indices());
    }
    columns.push_back(std::make_shared<arrow::ChunkedArray>(std::move(codes), arrow::int32()));
  }
  columns.push_back(std::make_shared<arrow::ChunkedArray>(int64_array(slots)));
  return arrow::Table::Make(plain_schema_, std::move(columns), obs.num_rows());
}

std::vector<ObsScatter::Piece> ObsScatter::scatter(const SourceRange& range,
                                                   std::span<const BucketSlot> slots) {
  std::vector<std::int64_t> source_rows(static_cast<std::size_t>(range.n_cells()));
  std::iota(source_rows.begin(), source_rows.end(), range.begin);
  const auto obs = shard::conform_obs(sources_.read_obs(range), schema_,
                                      sources_.store(range.source).info().path, source_rows);
  const std::vector<std::int64_t> rows = rows_by_bucket(slots);
  const auto sorted = as_batch(*matrix::take_rows(*take_apart(*obs, range.source, slots), rows));
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  options.use_threads = false;
  std::vector<Piece> pieces;
  for (std::int64_t begin = 0; begin < std::ssize(rows);) {
    const std::int64_t bucket = slots[rows[begin]].bucket;
    std::int64_t end = begin + 1;
    while (end < std::ssize(rows) && slots[rows[end]].bucket == bucket) ++end;
    pieces.push_back({bucket, matrix::check_arrow(arrow::ipc::SerializeRecordBatch(
                                                      *sorted->Slice(begin, end - begin), options),
                                                  kShufflingObs)});
    begin = end;
  }
  return pieces;
}

std::shared_ptr<arrow::Table> ObsScatter::gather(std::vector<std::byte> pieces) const {
  arrow::io::BufferReader reader(arrow::Buffer::FromVector(std::move(pieces)));
  arrow::RecordBatchVector batches;
  const std::int64_t end = matrix::check_arrow(reader.GetSize(), kShufflingObs);
  while (matrix::check_arrow(reader.Tell(), kShufflingObs) < end)
    batches.push_back(matrix::check_arrow(
        arrow::ipc::ReadRecordBatch(plain_schema_, nullptr, arrow::ipc::IpcReadOptions::Defaults(),
                                    &reader),
        kShufflingObs));
  const auto plain = as_batch(
      *matrix::check_arrow(arrow::Table::FromRecordBatches(plain_schema_, batches), kShufflingObs));
  const auto& slots =
      static_cast<const arrow::Int64Array&>(*plain->column(plain->num_columns() - 1));
  std::vector<std::int64_t> rows(static_cast<std::size_t>(plain->num_rows()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  std::sort(rows.begin(), rows.end(),
            [&](std::int64_t a, std::int64_t b) { return slots.Value(a) < slots.Value(b); });
  const auto sorted = matrix::take_rows(
      *matrix::check_arrow(arrow::Table::FromRecordBatches({plain}), kShufflingObs), rows);
  arrow::ChunkedArrayVector columns;
  for (int i = 0; i < schema_->num_fields(); ++i) {
    const auto& field = schema_->field(i);
    if (!is_dictionary(*field)) {
      columns.push_back(sorted->column(i));
      continue;
    }
    columns.push_back(std::make_shared<arrow::ChunkedArray>(
        matrix::check_arrow(arrow::DictionaryArray::FromArrays(
                                field->type(), sorted->column(i)->chunk(0), categories_[i]),
                            kShufflingObs)));
  }
  return arrow::Table::Make(schema_, std::move(columns), sorted->num_rows());
}

}  // namespace cellfeed::convert
