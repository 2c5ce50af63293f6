// Writing HDF5: attributes and groups in AnnData's way, and types for files.
// REQUIRES: a Hdf5Session around every call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/h5ad/hdf5_api.h"

namespace cellfeed::format::h5ad {

// Deeper nested groups are an error: they may be a cycle.
inline constexpr int kMaxGroupDepth = 100;

// Throws when status is negative, naming the operation: kNoSpace when the disk is full, kIo
// otherwise.
void check_write(std::int64_t status, const std::string& path, const std::string& operation);
Handle check_written(hid_t id, const std::string& path, const std::string& operation);

// Little-endian type in the file for values of dtype; booleans are h5py's enum of FALSE and TRUE.
Handle file_type(DType dtype);
// The same layout in this machine's memory.
Handle memory_type(DType dtype);
// UTF-8 strings of any length.
Handle string_type();

// path: of the file, for messages, as below.
void write_attribute(hid_t object, const std::string& path, const char* name, hid_t file_type,
                     hid_t memory_type, hid_t space, const void* values);
void write_text_attribute(hid_t object, const std::string& path, const char* name,
                          const std::string& text);
void write_texts_attribute(hid_t object, const std::string& path, const char* name,
                           const std::vector<std::string>& texts);
void write_integers_attribute(hid_t object, const std::string& path, const char* name,
                              const std::vector<std::int64_t>& values);
void write_bool_attribute(hid_t object, const std::string& path, const char* name, bool value);
// Sets encoding-type and encoding-version.
void write_encoding(hid_t object, const std::string& path, const std::string& type,
                    const std::string& version);
// Where a dataset has these chunks, deflated; of none, one piece as it is. The same data give the
// same bytes.
Handle copied_properties(const std::vector<hsize_t>& chunk);
// Rows [begin, begin + n) of the first dimension of a dataset of this shape, which has one.
void write_rows(hid_t dataset, hid_t memory_type, const std::vector<hsize_t>& shape, hsize_t begin,
                hsize_t n, const void* elements, const std::string& path,
                const std::string& operation);
// A dataset or group that was written before.
Handle open_written(hid_t parent, const std::string& path, const std::string& name);
void remove_written(hid_t parent, const std::string& path, const std::string& name);
// Of a group that was written with this encoding-type: removes it where members of it were left
// out, after n_before others, and anndata reads it as one object, such as a data frame, which is
// none without them. What is left out then is the group. Returns whether.
bool remove_if_broken(hid_t parent, const std::string& path, const std::string& name,
                      const std::string& encoding, std::size_t n_before,
                      std::vector<std::string>& left_out);
// Groups on the way are made when missing.
Handle create_group(hid_t parent, const std::string& path, const std::string& name);
void move_link(hid_t parent, const std::string& path, const std::string& from,
               const std::string& to);

}  // namespace cellfeed::format::h5ad
