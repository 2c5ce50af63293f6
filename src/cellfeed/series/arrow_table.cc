// Tables of Parquet and Arrow IPC (Feather) files: batches of columns, decoded within a bound.
#include <arrow/api.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/column_reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/arrow_source.h"
#include "cellfeed/format/decode_pool.h"
#include "cellfeed/format/parquet_chunk.h"
#include "cellfeed/format/parquet_reader.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/series/arrow_values.h"
#include "cellfeed/series/table.h"

namespace cellfeed::series {
namespace {

// Rows decoded at a time.
constexpr std::int64_t kBatchRows = 16384;
// Of each column of a Parquet file that is not mapped, read at a time.
constexpr std::int64_t kStreamBytes = std::int64_t{128} << 10;
// Of row groups read over a link, held at a time where there are several.
constexpr std::int64_t kHeldBytes = std::int64_t{16} << 20;
constexpr std::size_t kHeldGroups = 64;
// The disk is asked for no more of a row group that is not in memory.
constexpr std::int64_t kAskedBytes = std::int64_t{256} << 20;
// Row groups of so many numbers are decoded column by column.
constexpr std::int64_t kWholeBytes = std::int64_t{128} << 20;
// Values that are decoded before the system may take back the pages of a mapped file.
constexpr std::int64_t kValuesBetweenReleases = std::int64_t{1} << 20;

class ArrowTable : public Table {
 public:
  std::int64_t next(std::int64_t max_rows) override {
    first_row_ += current_ ? current_->num_rows() : 0;
    while (!batch_ || next_row_ == batch_->num_rows()) {
      current_ = nullptr;
      batch_ = guarded([&] { return read_batch(); });
      next_row_ = 0;
      if (!batch_) return 0;
      check(batch_->ValidateFull());
    }
    const std::int64_t n = std::min(max_rows, batch_->num_rows() - next_row_);
    current_ = batch_->Slice(next_row_, n);
    next_row_ += n;
    return n;
  }

  std::string place(std::int64_t row) const override {
    return fmt::format("row {}", first_row_ + row);
  }

  void numbers(int column, double* out, std::int64_t stride) const override {
    read_numbers(array(column), out, stride, bad_value(column));
  }
  void rows(std::span<const int> columns, double* out, std::int64_t stride) const override {
    if (read_rows(arrays(columns), out, stride)) return;
    Table::rows(columns, out, stride);  // which says what is wrong, and where
  }
  bool narrow_rows(std::span<const int> columns, std::byte* out,
                   std::size_t n_bytes) const override {
    return read_narrow_rows(arrays(columns), out, n_bytes);
  }
  std::optional<TimeKind> times(int column, std::optional<std::int64_t> unit,
                                std::span<std::int64_t> out) const override {
    return read_times(array(column), unit, out, bad_value(column));
  }
  void integers(int column, std::span<std::int64_t> out) const override {
    read_integers(array(column), out, bad_value(column));
  }
  void texts(int column, std::vector<std::string_view>& out) override {
    read_texts(array(column), out, texts_, bad_value(column));
  }

 protected:
  ArrowTable(const std::string& path, io::FileAccess access, std::int64_t budget)
      : Table(path, io::open_file(path, {.access = access,
                                         .guarded = access == io::FileAccess::kMap,
                                         .threads = 1})),
        budget_(budget),
        pool_(budget) {}

  // Null at the end.
  virtual std::shared_ptr<arrow::RecordBatch> read_batch() = 0;

  void set_columns(const arrow::Schema& schema) {
    for (const auto& field : schema.fields())
      add_column({field->name(), is_numeric_type(*field->type()),
                  field->type()->id() == arrow::Type::BOOL, is_text_type(*field->type()),
                  is_integer_type(*field->type())});
  }
  void choose_slots(std::span<const int> columns) {
    slots_.assign(columns_.size(), -1);
    std::vector<int> sorted(columns.begin(), columns.end());
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i)
      slots_[static_cast<std::size_t>(sorted[i])] = static_cast<int>(i);
  }
  void check(const arrow::Status& status) const {
    if (status.ok()) return;
    if (status.IsOutOfMemory())
      throw_error(ErrorKind::kCorruptData, path_,
                  "takes more than {} once it is decoded: it is damaged, or the memory budget has "
                  "to be larger",
                  format_byte_size(budget_));
    throw_error(ErrorKind::kCorruptData, path_, "cannot be read: {}", status.message());
  }
  template <typename T>
  T value(arrow::Result<T> result) const {
    check(result.status());
    return *std::move(result);
  }
  // What the library throws is a damaged file.
  template <typename Fn>
  std::invoke_result_t<Fn> guarded(Fn&& fn) const {
    try {
      return fn();
    } catch (const parquet::ParquetException& error) {
      throw_error(ErrorKind::kCorruptData, path_, "cannot be read: {}", error.what());
    }
  }
  arrow::MemoryPool* pool() const { return pool_.get(); }
  std::shared_ptr<format::SourceFile> file_to_decode() const {
    return std::make_shared<format::SourceFile>(source_, pool());
  }
  std::int64_t budget() const { return budget_; }
  // Of shares before this one.
  void skip_rows(std::int64_t n) { first_row_ += n; }

 private:
  const arrow::Array& array(int column) const {
    return *current_->column(slots_[static_cast<std::size_t>(column)]);
  }
  std::vector<const arrow::Array*> arrays(std::span<const int> columns) const {
    std::vector<const arrow::Array*> found;
    for (const int column : columns) found.push_back(&array(column));
    return found;
  }
  OnBadValue bad_value(int column) const {
    return [this, column](std::int64_t row, const std::string& what) {
      throw_value(row, column, what);
    };
  }

  std::int64_t budget_;
  format::DecodePool pool_;
  std::vector<int> slots_;  // of each column, among those that batches have
  std::shared_ptr<arrow::RecordBatch> batch_, current_;
  std::int64_t next_row_ = 0;  // of the batch
  std::int64_t first_row_ = 0;
  std::vector<std::string> texts_;
};

class ParquetTable : public ArrowTable {
 public:
  ParquetTable(const std::string& path, std::int64_t budget, TableShare share,
               std::int64_t* n_groups)
      : ArrowTable(path, io::FileAccess::kMap, budget) {
    guarded([&] {
      file_ = file_to_decode();
      reader_ = value(format::open_parquet_reader(
          file_, pool(),
          {.batch_rows = kBatchRows, .buffer_bytes = source_->map().empty() ? kStreamBytes : 0}));
      std::shared_ptr<arrow::Schema> schema;
      check(reader_->GetSchema(&schema));
      set_columns(*schema);
    });
    const std::int64_t n = reader_->num_row_groups();
    const auto first = static_cast<int>(share.k * n / share.n);
    const auto end = static_cast<int>((share.k + 1) * n / share.n);
    for (int group = 0; group < end; ++group) {
      if (group >= first)
        groups_.push_back(group);
      else
        skip_rows(reader_->parquet_reader()->metadata()->RowGroup(group)->num_rows());
    }
    if (n_groups != nullptr) *n_groups = n;
  }

  void choose(std::span<const int> columns) override {
    choose_slots(columns);
    leaves_.clear();
    for (const int c : columns) {
      const int leaf = reader_->manifest().schema_fields[static_cast<std::size_t>(c)].column_index;
      if (leaf < 0)
        throw_error(ErrorKind::kUnsupported, path_,
                    "column '{}' holds lists or records, not one value a row",
                    columns_[static_cast<std::size_t>(c)].name);
      leaves_.push_back(leaf);
    }
    std::ranges::sort(leaves_);
  }

 private:
  std::shared_ptr<arrow::RecordBatch> read_batch() override {
    for (;;) {
      std::shared_ptr<arrow::RecordBatch> batch;
      if (batches_) check(batches_->ReadNext(&batch));
      io::require_unchanged(*source_);
      if (batch) release_pages(batch->num_rows());
      if (batch || next_group_ == groups_.size()) return batch;
      batches_.reset();
      whole_.reset();
      prepare_next_groups();
    }
  }

  void release_pages(std::int64_t n_rows) {
    n_values_ += n_rows * std::ssize(leaves_);
    if (n_values_ < kValuesBetweenReleases) return;
    n_values_ = 0;
    source_->release_pages();
  }

  // Column by column, so that pages and dictionaries of one at a time take memory, and the
  // processor's cache holds them. Null where the rows take too much for that.
  std::unique_ptr<arrow::RecordBatchReader> read_whole(const std::vector<int>& some) {
    const std::int64_t most_rows = std::min(kWholeBytes, budget() / 4) /
                                   static_cast<std::int64_t>(sizeof(double)) /
                                   std::max<std::int64_t>(1, std::ssize(leaves_));
    std::int64_t n_rows = 0;
    for (const int group : some) {
      const std::int64_t more = reader_->parquet_reader()->metadata()->RowGroup(group)->num_rows();
      if (more < 0 || more > most_rows - n_rows) return nullptr;
      n_rows += more;
    }
    std::vector<std::shared_ptr<arrow::Field>> fields;
    std::vector<std::shared_ptr<arrow::ChunkedArray>> columns;
    for (const int leaf : leaves_) {
      auto table = reader_->ReadRowGroups(some, {leaf});
      if (table.status().IsOutOfMemory()) return nullptr;  // long texts
      const std::shared_ptr<arrow::Table> column = value(std::move(table));
      fields.push_back(column->schema()->field(0));
      columns.push_back(column->column(0));
    }
    whole_ = arrow::Table::Make(arrow::schema(fields), std::move(columns));
    check(whole_->Validate());
    return std::make_unique<arrow::TableBatchReader>(*whole_);
  }

  static bool is_in_range(const parquet::Int96& time) {
    constexpr std::int64_t kJulianDayOf1970 = 2'440'588, kDay = 86'400'000'000'000;
    std::int64_t ns = 0, of_day = 0;
    std::memcpy(&of_day, &time, sizeof of_day);
    if (of_day < 0 || of_day >= kDay) return false;
    // Towards 1970, so that the first day, of which 64 bits hold the end, does not overflow.
    std::int64_t day = time.value[2] - kJulianDayOf1970;
    if (day < 0) ++day, of_day -= kDay;
    return !__builtin_mul_overflow(day, kDay, &ns) && !__builtin_add_overflow(ns, of_day, &ns);
  }

  // Of times of 96 bits the library makes nanoseconds, which wrap around where 64 bits do not hold
  // them.
  void require_times_in_range(int leaf, const std::vector<int>& groups) const {
    const auto metadata = reader_->parquet_reader()->metadata();
    const auto* column = metadata->schema()->Column(leaf);
    if (column->physical_type() != parquet::Type::INT96) return;
    std::vector<parquet::Int96> values(kBatchRows);
    std::vector<std::int16_t> levels(kBatchRows);
    for (const int group : groups) {
      const auto chunk = reader_->parquet_reader()->RowGroup(group)->Column(leaf);
      auto& times = static_cast<parquet::Int96Reader&>(*chunk);
      while (times.HasNext()) {
        std::int64_t n = 0;
        times.ReadBatch(kBatchRows, levels.data(), nullptr, values.data(), &n);
        for (const parquet::Int96& time : std::span(values).first(static_cast<std::size_t>(n)))
          if (!is_in_range(time))
            throw_error(ErrorKind::kCorruptData, path_,
                        "row group {}, column '{}': a time is beyond what nanoseconds can hold: "
                        "the Julian day {}",
                        group, column->name(), time.value[2]);
      }
    }
  }

  void read_groups(std::size_t n) {
    const auto first = groups_.begin() + static_cast<std::ptrdiff_t>(next_group_);
    const std::vector<int> some(first, first + static_cast<std::ptrdiff_t>(n));
    guarded([&] {
      for (const int leaf : leaves_) require_times_in_range(leaf, some);
      batches_ = leaves_.empty() ? nullptr : read_whole(some);
      if (!batches_) batches_ = value(reader_->GetRecordBatchReader(some, leaves_));
    });
    next_group_ += n;
  }

  // What the chosen columns of a row group take in the file.
  std::vector<io::ByteRange> ranges_of(int group) const {
    const auto about = reader_->parquet_reader()->metadata()->RowGroup(group);
    std::vector<io::ByteRange> ranges;
    for (const int leaf : leaves_)
      ranges.push_back(format::range_of_chunk(*about->ColumnChunk(leaf)));
    return ranges;
  }

  // The next row groups, few at a time: over a link what is asked for of them is read at once and
  // not page by page. Of one that would take more than decoding may, pages after all.
  void prepare_next_groups() {
    std::vector<io::ByteRange> ranges;
    std::int64_t bytes = 0;
    std::size_t n = 0;
    for (; n < kHeldGroups && next_group_ + n < groups_.size(); ++n) {
      const std::vector<io::ByteRange> of_group = ranges_of(groups_[next_group_ + n]);
      std::int64_t more = 0;
      bool is_known = true;
      for (const io::ByteRange& range : of_group) {
        is_known &= range.length >= 0 && range.length <= source_->size();
        more += is_known ? range.length : 0;
      }
      if (!is_known || bytes + more > std::min(budget() / 2, n == 0 ? budget() : kHeldBytes)) break;
      bytes += more;
      ranges.insert(ranges.end(), of_group.begin(), of_group.end());
    }
    source_->map().empty() ? file_->hold(std::move(ranges)) : ask_for(ranges, bytes);
    read_groups(std::max<std::size_t>(1, n));
  }

  // Has the disk read what is not in memory, many pieces at once.
  void ask_for(std::vector<io::ByteRange>& ranges, std::int64_t bytes) const {
    const auto is_outside = [&](const io::ByteRange& range) {
      return range.offset < 0 || range.length < 1 || range.length > source_->size() - range.offset;
    };
    if (bytes > kAskedBytes) return;
    std::erase_if(ranges, is_outside);  // whoever reads such says so
    std::vector<std::int64_t> begins;
    for (const io::ByteRange& range : ranges) begins.push_back(range.offset);
    if (begins.empty() || source_->is_cached(begins)) return;
    std::ranges::sort(ranges, {}, &io::ByteRange::offset);
    source_->will_read(ranges);
  }

  std::shared_ptr<format::SourceFile> file_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> groups_, leaves_;
  std::size_t next_group_ = 0;
  std::shared_ptr<arrow::Table> whole_;  // what batches_ are of
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  std::int64_t n_values_ = 0;  // decoded since pages were released
};

class IpcTable : public ArrowTable {
 public:
  IpcTable(const std::string& path, std::int64_t budget)
      : ArrowTable(path, io::FileAccess::kPread, budget), file_(file_to_decode()) {
    options_.memory_pool = pool();
    options_.use_threads = false;
    set_columns(*value(arrow::ipc::RecordBatchFileReader::Open(file_, options_))->schema());
  }

  void choose(std::span<const int> columns) override {
    choose_slots(columns);
    options_.included_fields.assign(columns.begin(), columns.end());
    std::ranges::sort(options_.included_fields);
    reader_ = value(arrow::ipc::RecordBatchFileReader::Open(file_, options_));
  }

 private:
  std::shared_ptr<arrow::RecordBatch> read_batch() override {
    if (next_ == reader_->num_record_batches()) return nullptr;
    return value(reader_->ReadRecordBatch(next_++));
  }

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  arrow::ipc::IpcReadOptions options_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
  int next_ = 0;
};

}  // namespace

std::unique_ptr<Table> open_parquet_table(const std::string& path, std::int64_t budget,
                                          TableShare share, std::int64_t* n_groups) {
  return std::make_unique<ParquetTable>(path, budget, share, n_groups);
}

std::unique_ptr<Table> open_ipc_table(const std::string& path, std::int64_t budget) {
  return std::make_unique<IpcTable>(path, budget);
}

}  // namespace cellfeed::series
