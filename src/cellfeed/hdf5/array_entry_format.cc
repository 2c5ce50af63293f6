// The place of one chunk in a fixed or extensible array.
#include "cellfeed/hdf5/chunk_index_kinds.h"

namespace cellfeed::hdf5 {

ArrayEntryFormat::ArrayEntryFormat(const Cursor& header, int client, int entry_bytes)
    : entry_bytes_(entry_bytes) {
  constexpr int kFilteredClient = 1, kMaskBytes = 4, kMaxSizeBytes = 8;
  const int address_bytes = header.file().offset_size();
  if (client == kFilteredClient) size_bytes_ = entry_bytes - address_bytes - kMaskBytes;
  const bool is_sound = client == kFilteredClient ? size_bytes_ >= 1 && size_bytes_ <= kMaxSizeBytes
                                                  : client == 0 && entry_bytes == address_bytes;
  if (!is_sound) header.fail("entries of {} bytes for client {}", entry_bytes, client);
}

void ArrayEntryFormat::read(Cursor& at, std::uint64_t unfiltered_bytes, Address& address,
                            std::uint64_t& n_bytes, std::uint32_t& skipped) const {
  address = at.read_address();
  n_bytes = unfiltered_bytes;
  skipped = 0;
  if (size_bytes_ == 0) return;
  n_bytes = at.uint(size_bytes_);
  skipped = at.u32();
}

}  // namespace cellfeed::hdf5
