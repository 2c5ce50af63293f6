// Any bytes as a record: an error of the right kind, or columns that rise and lie inside the
// matrix.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/record/record.h"
#include "fuzz/target.h"

namespace {

using cellfeed::Casting;
using cellfeed::DType;
using cellfeed::ErrorKind;
namespace shard = cellfeed::format::shard;

constexpr std::int64_t kColumns = 30000;
constexpr DType kOutTypes[] = {DType::kF32, DType::kF64, DType::kI32, DType::kI64};

// How to decode, in front of the record itself.
struct Header {
  std::uint8_t stored;
  std::uint8_t out;
  std::uint16_t nnz;
};

template <typename T>
void add_seed(std::vector<std::int32_t> indices, std::vector<T> values,
              std::vector<std::vector<std::uint8_t>>& seeds) {
  for (std::uint8_t out = 0; out < 4; ++out) {
    const Header header{static_cast<std::uint8_t>(cellfeed::dtype_of<T>()), out,
                        static_cast<std::uint16_t>(indices.size())};
    std::vector<std::uint8_t> seed(sizeof(header));
    std::memcpy(seed.data(), &header, sizeof(header));
    shard::encode_record(indices, values.data(), cellfeed::dtype_of<T>(), seed);
    seeds.push_back(seed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Header header;
  if (size < sizeof(header)) return 0;
  std::memcpy(&header, data, sizeof(header));
  const auto stored = static_cast<DType>(header.stored % (static_cast<int>(DType::kF64) + 1));
  const DType out = kOutTypes[header.out % 4];
  const Casting casting = (header.out & 4) != 0 ? Casting::kSameKind : Casting::kExact;
  const std::size_t length = size - sizeof(header);
  std::vector<std::uint8_t> record(data + sizeof(header), data + size);
  record.resize(length + shard::kRecordPaddingBytes);
  record.shrink_to_fit();
  const std::size_t nnz = header.nnz;
  std::vector<std::int32_t> indices(nnz);
  std::vector<std::uint8_t> values(nnz * cellfeed::dtype_bytes(out));
  try {
    shard::decode_record({record.data(), length}, header.nnz, kColumns, stored, out, casting,
                         indices.data(), values.data());
  } catch (const cellfeed::Error& error) {
    if (error.kind() != ErrorKind::kCorruptData && error.kind() != ErrorKind::kPrecision)
      std::abort();
    return 0;
  }
  for (std::size_t i = 0; i < nnz; ++i) {
    if (indices[i] < 0 || indices[i] >= kColumns || (i > 0 && indices[i] <= indices[i - 1]))
      std::abort();
  }
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  std::vector<std::vector<std::uint8_t>> seeds;
  for (const int nnz : {0, 1, 20, 128, 300}) {
    std::vector<std::int32_t> indices;
    std::vector<float> counts, scaled, logged, raw;
    std::vector<double> wide;
    std::vector<std::int64_t> integers;
    for (int i = 0; i < nnz; ++i) {
      indices.push_back(40 * i + i * i % 37 + (i > nnz / 2 ? 9000 : 0));
      const auto count = static_cast<float>(1 + i * i % 5 + (i % 29 == 3 ? 7000 : 0));
      counts.push_back(count);
      scaled.push_back(count / 1.7f);
      logged.push_back(std::log1p(count));
      raw.push_back(std::sin(count * static_cast<float>(i)));
      wide.push_back(count * 0.1);
      integers.push_back(i % 3 == 0 ? -1 : i);
    }
    add_seed(indices, counts, seeds);
    add_seed(indices, scaled, seeds);
    add_seed(indices, logged, seeds);
    add_seed(indices, raw, seeds);
    add_seed(indices, wide, seeds);
    add_seed(indices, integers, seeds);
  }
  return seeds;
}
