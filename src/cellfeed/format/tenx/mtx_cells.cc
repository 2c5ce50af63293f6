#include "cellfeed/format/tenx/mtx_cells.h"

#include <arrow/api.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>

#include "cellfeed/base/error.h"
#include "cellfeed/format/column_values.h"

namespace cellfeed::format::tenx {
namespace {

// Threads that ask at once are at most so many blocks apart, mostly.
constexpr std::size_t kKnownBlocks = 8;
// Arrow's strings have offsets of 32 bits.
constexpr std::int64_t kMaxTextBytes = std::numeric_limits<std::int32_t>::max() - 1;

void require_room(const std::string& path, std::int64_t n_bytes, std::int64_t cell) {
  if (n_bytes > kMaxTextBytes)
    throw_error(ErrorKind::kUnsupported, path,
                "more than 2 GiB of texts cannot be read at once: up to cell {} of them", cell);
}

}  // namespace

MtxCells::MtxCells(SourcePtr source, bool has_headings, std::int64_t most)
    : source_(std::move(source)), has_headings_(has_headings) {
  if (!has_headings) add_names({"barcode"});
  std::vector<SeenTexts> seen(names_.size());
  CsvFields split;
  length_ = visit_lines(source_, has_headings ? "cells" : "barcodes", most + (has_headings ? 1 : 0),
                        [&](std::int64_t line, std::string_view text) {
                          if (names_.empty()) {
                            add_names(split_line(source_->path(), line, text, ',', split));
                            seen.resize(names_.size());
                            return;
                          }
                          const Fields& fields = fields_of(line, text, split);
                          for (std::size_t i = 1; i < names_.size(); ++i) seen[i].see(fields[i]);
                        });
  if (has_headings) {
    if (names_.empty()) add_names({"cell"});
    leave_headings_out(length_);
  }
  types_.assign(names_.size(), TextType::kText);
  for (std::size_t i = 1; i < seen.size(); ++i) types_[i] = seen[i].type();
}

void MtxCells::add_names(const Fields& headings) {
  for (const std::string_view heading : headings) {
    std::string name(names_.empty() ? "_index" : heading);
    if (name.empty() || std::ranges::find(names_, name) != names_.end())
      throw_error(ErrorKind::kCorruptData, source_->path(),
                  "column {} needs a heading of its own, and has '{}'", names_.size() + 1, name);
    names_.push_back(std::move(name));
  }
}

const MtxCells::Fields& MtxCells::fields_of(std::int64_t line, std::string_view text,
                                            CsvFields& split) const {
  const Fields& fields = split_line(source_->path(), line, text, has_headings_ ? ',' : '\t', split);
  if (has_headings_) require_columns(source_->path(), line, fields.size(), names_.size(), text);
  return fields;
}

std::shared_ptr<arrow::Schema> MtxCells::schema() const {
  arrow::FieldVector fields;
  for (std::size_t i = 0; i < names_.size(); ++i)
    fields.push_back(arrow::field(names_[i], arrow_type(types_[i])));
  return arrow::schema(std::move(fields));
}

arrow::ArrayVector MtxCells::read_columns(const std::vector<int>& columns, std::int64_t begin,
                                          std::int64_t end) const {
  const std::lock_guard lock(mutex_);
  if (!source_->is_unchanged())
    throw_error(ErrorKind::kCorruptData, source_->path(),
                "the file was written to since it was opened; open it again once it is whole");
  std::vector<arrow::ArrayVector> parts(columns.size());
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t first = at / kBlockCells * kBlockCells;
    const std::int64_t stop = std::min(end, first + kBlockCells);
    const Block cells = block(at / kBlockCells);
    for (std::size_t i = 0; i < columns.size(); ++i)
      parts[i].push_back(cells->column(columns[i])->Slice(at - first, stop - at));
    at = stop;
  }
  arrow::ArrayVector arrays;
  for (std::size_t i = 0; i < columns.size(); ++i)
    arrays.push_back(joined(parts[i], types_[static_cast<std::size_t>(columns[i])]));
  return arrays;
}

std::shared_ptr<arrow::Array> MtxCells::joined(const arrow::ArrayVector& parts,
                                               TextType type) const {
  if (parts.size() == 1) return parts.front();
  std::int64_t n_bytes = 0, n_cells = 0;
  for (const auto& part : parts) {
    n_cells += part->length();
    if (type == TextType::kText)
      n_bytes += static_cast<const arrow::StringArray&>(*part).total_values_length();
    require_room(source_->path(), n_bytes, n_cells);
  }
  auto all = parts.empty() ? arrow::MakeEmptyArray(arrow_type(type)) : arrow::Concatenate(parts);
  check_arrow(all.status());
  return *all;
}

std::shared_ptr<arrow::Array> MtxCells::read(const std::string& name) const {
  const auto at = std::ranges::find(names_, name) - names_.begin();
  return read_columns({static_cast<int>(at)}, 0, length_.n).front();
}

std::shared_ptr<arrow::Table> MtxCells::read(std::int64_t begin, std::int64_t end) const {
  std::vector<int> all(names_.size());
  std::iota(all.begin(), all.end(), 0);
  return arrow::Table::Make(schema(), read_columns(all, begin, end), end - begin);
}

MtxCells::Block MtxCells::block(std::int64_t number) const {
  for (const auto& [known, cells] : known_)
    if (known == number) return cells;
  try {
    if (!reader_ || number < next_) {
      reader_.emplace(source_, kMaxLineBytes);
      next_ = 0;
      if (has_headings_) next_line(0);
    }
    for (;;) {
      Block cells = read_block();
      if (known_.size() == kKnownBlocks) known_.pop_front();
      known_.emplace_back(next_, cells);
      if (next_++ == number) return cells;
    }
  } catch (...) {
    reader_.reset();
    throw;
  }
}

std::string_view MtxCells::next_line(std::int64_t cell) const {
  const auto line = reader_->next();
  if (!line)
    throw_error(ErrorKind::kCorruptData, source_->path(),
                "the file was written to since it was opened: it ends before cell {}", cell);
  return *line;
}

MtxCells::Block MtxCells::read_block() const {
  const std::int64_t first = next_ * kBlockCells;
  const std::int64_t n = std::min(kBlockCells, length_.n - first);
  std::vector<std::unique_ptr<arrow::ArrayBuilder>> builders(names_.size());
  for (std::size_t c = 0; c < names_.size(); ++c)
    check_arrow(
        arrow::MakeBuilder(arrow::default_memory_pool(), arrow_type(types_[c]), &builders[c]));
  std::int64_t n_bytes = 0;
  CsvFields split;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::string_view text = next_line(first + i);
    const Fields& fields = fields_of(reader_->number(), text, split);
    require_room(source_->path(), n_bytes += std::ssize(text), first + i);
    check_arrow(static_cast<arrow::StringBuilder&>(*builders[0]).Append(fields[0]));
    for (std::size_t c = 1; c < names_.size(); ++c)
      if (!append_text(types_[c], fields[c], *builders[c]))
        throw_error(ErrorKind::kCorruptData, source_->path(),
                    "the file was written to since it was opened: line {}", reader_->number());
  }
  arrow::ArrayVector columns(names_.size());
  for (std::size_t c = 0; c < columns.size(); ++c) check_arrow(builders[c]->Finish(&columns[c]));
  return arrow::RecordBatch::Make(schema(), n, std::move(columns));
}

}  // namespace cellfeed::format::tenx
