#include "cellfeed/format/shard/dense_file_writer.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/format/shard/dense_file_layout.h"
#include "cellfeed/io/atomic_file.h"

namespace cellfeed::format::shard {

struct DenseFileWriter::State {
  State(io::FileTarget target, std::int64_t genes)
      : file(std::move(target), io::OnExisting::kReplace),
        n_genes(genes),
        rows_per_block(DenseLayout(0, genes, file.path()).rows_per_block) {}

  void append_header(const std::string& header) {
    file.append(std::as_bytes(std::span<const char>(header)));
  }

  // Whole rows, cut where blocks end.
  void hash_rows(std::span<const std::uint8_t> bytes, std::int64_t rows) {
    const auto row_bytes = static_cast<std::size_t>(n_genes) * sizeof(float);
    while (rows > 0) {
      const std::int64_t taken = std::min(rows, rows_per_block - rows_in_block);
      const std::size_t size = row_bytes * static_cast<std::size_t>(taken);
      checksum.add(std::as_bytes(bytes.first(size)));
      bytes = bytes.subspan(size);
      rows -= taken;
      rows_in_block += taken;
      if (rows_in_block == rows_per_block) close_block();
    }
  }

  void close_block() {
    if (rows_in_block == 0) return;
    checksums.push_back(checksum.value());
    checksum.reset();
    rows_in_block = 0;
  }

  io::AtomicFile file;
  RunningChecksum checksum;  // of the open block
  std::int64_t n_genes;
  std::int64_t rows_per_block;
  std::int64_t rows_in_block = 0;
  std::vector<std::uint64_t> checksums;  // of the closed ones
  std::int64_t n_cells = 0;
  std::int64_t nnz = 0;
};

DenseFileWriter::DenseFileWriter(io::FileTarget target, std::int64_t n_genes)
    : state_(std::make_unique<State>(std::move(target), n_genes)) {
  state_->append_header(values_header(0, n_genes));
}
DenseFileWriter::~DenseFileWriter() = default;
DenseFileWriter::DenseFileWriter(DenseFileWriter&&) noexcept = default;

std::int64_t DenseFileWriter::n_cells() const { return state_->n_cells; }
std::int64_t DenseFileWriter::nnz() const { return state_->nnz; }

void DenseFileWriter::append(const EncodedRows& rows) {
  State& s = *state_;
  const auto row_bytes = static_cast<std::size_t>(s.n_genes) * sizeof(float);
  if (rows.bytes.size() != row_bytes * rows.lengths.size())
    throw_invalid("EncodedRows are not dense rows of {} genes", s.n_genes);
  s.file.append(std::as_bytes(std::span<const std::uint8_t>(rows.bytes)));
  s.hash_rows(rows.bytes, rows.n_rows());
  s.n_cells += rows.n_rows();
  for (const auto n : rows.nnz) s.nnz += n;
}

FileEntry DenseFileWriter::finish() {
  State& s = *state_;
  s.close_block();
  const auto checksums = std::as_bytes(std::span<const std::uint64_t>(s.checksums));
  s.append_header(checksums_header(std::ssize(s.checksums)));
  s.file.append(checksums);
  const std::string header = values_header(s.n_cells, s.n_genes);
  s.file.overwrite(0, std::as_bytes(std::span<const char>(header)));
  s.file.commit();
  return {.name = std::filesystem::path(s.file.path()).filename().string(),
          .bytes = s.file.size(),
          .checksum = checksum_bytes(checksums)};
}

}  // namespace cellfeed::format::shard
