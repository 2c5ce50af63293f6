// File against libhdf5: what it writes of every kind, and real files where they are.
#include "cellfeed/hdf5/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <ostream>

#include "cellfeed/io/local_file.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/testing/hdf5_oracle.h"
#include "cellfeed/testing/hdf5_parts.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::hdf5 {
namespace {

using cellfeed::testing::Hdf5Oracle;
using cellfeed::testing::make_group;
using cellfeed::testing::OracleId;
using cellfeed::testing::TempDir;
using ::testing::HasSubstr;

File open_file(const std::string& path) { return File::open(io::open_local_file(path)); }

// How a file is written.
struct Format {
  const char* name;
  H5F_libver_t low;
  hsize_t user_block = 0;
  int offset_size = 8;
  int length_size = 8;
  bool shares_messages = false;

  friend void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }
};

class Formats : public ::testing::TestWithParam<Format> {
 protected:
  std::string path() const { return dir_.file("file.h5"); }
  OracleId create() const {
    const Format& format = GetParam();
    const OracleId creation(H5Pcreate(H5P_FILE_CREATE));
    H5Pset_userblock(creation, format.user_block);
    H5Pset_sizes(creation, static_cast<std::size_t>(format.offset_size),
                 static_cast<std::size_t>(format.length_size));
    if (format.shares_messages) {
      H5Pset_shared_mesg_nindexes(creation, 2);
      H5Pset_shared_mesg_index(creation, 0, H5O_SHMESG_ATTR_FLAG, 16);
      H5Pset_shared_mesg_index(creation, 1,
                               H5O_SHMESG_DTYPE_FLAG | H5O_SHMESG_SDSPACE_FLAG |
                                   H5O_SHMESG_FILL_FLAG | H5O_SHMESG_PLINE_FLAG,
                               8);
    }
    const OracleId access(H5Pcreate(H5P_FILE_ACCESS));
    H5Pset_libver_bounds(access, format.low, H5F_LIBVER_LATEST);
    return OracleId(H5Fcreate(path().c_str(), H5F_ACC_TRUNC, creation, access));
  }
  Hdf5Oracle::Compared compare() const { return Hdf5Oracle::compare(open_file(path()), path()); }

  TempDir dir_;
};

INSTANTIATE_TEST_SUITE_P(
    All, Formats,
    ::testing::Values(Format{"earliest", H5F_LIBVER_EARLIEST}, Format{"v18", H5F_LIBVER_V18},
                      Format{"latest", H5F_LIBVER_LATEST},
                      Format{"earliest_user_block", H5F_LIBVER_EARLIEST, 512},
                      Format{"latest_user_block", H5F_LIBVER_LATEST, 2048},
                      Format{"earliest_narrow", H5F_LIBVER_EARLIEST, 0, 4, 4},
                      Format{"latest_narrow", H5F_LIBVER_LATEST, 512, 4, 4},
                      Format{"shared_messages", H5F_LIBVER_LATEST, 0, 8, 8, true}),
    [](const auto& info) { return info.param.name; });

OracleId vector_space(hsize_t n) { return OracleId(H5Screate_simple(1, &n, nullptr)); }

OracleId variable_text() {
  OracleId type(H5Tcopy(H5T_C_S1));
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

void write_text_attribute(hid_t object, const std::string& name, const std::string& text) {
  const OracleId type = variable_text();
  const OracleId space(H5Screate(H5S_SCALAR));
  const OracleId attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
  const char* value = text.c_str();
  H5Awrite(attribute, type, static_cast<const void*>(&value));
}

void write_number_attribute(hid_t object, const std::string& name, std::int32_t value) {
  const OracleId space(H5Screate(H5S_SCALAR));
  const OracleId attribute(
      H5Acreate2(object, name.c_str(), H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT));
  H5Awrite(attribute, H5T_NATIVE_INT32, &value);
}

void make_dataset(hid_t parent, const std::string& name, hid_t type, hid_t space,
                  hid_t properties = H5P_DEFAULT) {
  const OracleId dataset(
      H5Dcreate2(parent, name.c_str(), type, space, H5P_DEFAULT, properties, H5P_DEFAULT));
  ASSERT_GE(hid_t{dataset}, 0) << name;
}

TEST_P(Formats, GroupsOfFewAndOfManyMembers) {
  {
    const OracleId file = create();
    make_group(file, "empty");
    for (const int n : {1, 7, 8, 9, 100, 3000}) {
      const OracleId group = make_group(file, "of " + std::to_string(n));
      for (int i = 0; i < n; ++i) make_group(group, "member " + std::to_string(i * 7919 % n));
    }
    const OracleId long_names = make_group(file, "long");
    for (int i = 0; i < 20; ++i) make_group(long_names, std::string(500, 'x') + std::to_string(i));
    H5Lcreate_soft("of 7/member 3", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file, "of 8", file, "hard", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file, "/", file, "of 1/root", H5P_DEFAULT, H5P_DEFAULT);
  }
  EXPECT_EQ(compare().n_objects, 1 + 1 + 6 + 1 + 7 + 8 + 9 + 100 + 3000 + 1 + 20);
  const File file = open_file(path());
  EXPECT_TRUE(file.find("of 3000/member 2999"));
  EXPECT_TRUE(file.find("/of 3000/member 0/"));
  EXPECT_FALSE(file.find("of 3000/member 3000"));
  EXPECT_FALSE(file.find("of 3000/member 1/more"));
  EXPECT_EQ(file.find("soft")->address(), file.find("of 7/member 3")->address());
  EXPECT_EQ(file.find("of 1/root/of 1/root/of 8")->address(), file.find("hard")->address());
}

TEST_P(Formats, AttributesFewAndManySmallAndLarge) {
  {
    const OracleId file = create();
    for (const int n : {1, 8, 9, 200}) {
      const OracleId group = make_group(file, "of " + std::to_string(n));
      for (int i = 0; i < n; ++i) {
        write_number_attribute(group, "number " + std::to_string(i), i);
        write_text_attribute(group, "text " + std::to_string(i), std::string(i % 50, 'a'));
      }
    }
    if (GetParam().low != H5F_LIBVER_EARLIEST) {
      // More than an object header holds.
      const OracleId group = make_group(file, "large");
      const OracleId space = vector_space(20'000);
      const std::vector<std::int32_t> values(20'000, 7);
      for (const char* name : {"a", "b"}) {
        const OracleId attribute(
            H5Acreate2(group, name, H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT));
        H5Awrite(attribute, H5T_NATIVE_INT32, values.data());
      }
    }
  }
  EXPECT_GE(compare().n_attributes, 2 * (1 + 8 + 9 + 200));
  const File file = open_file(path());
  EXPECT_EQ(file.find("of 200")->text_attribute("text 49"), std::string(49, 'a'));
  EXPECT_EQ(file.find("of 200")->integers_attribute("number 49"), std::vector<std::int64_t>{49});
  EXPECT_FALSE(file.find("of 200")->text_attribute("number 49"));
  EXPECT_FALSE(file.find("of 200")->text_attribute("none"));
}

std::vector<std::pair<std::string, OracleId>> all_types() {
  std::vector<std::pair<std::string, OracleId>> types;
  const auto add = [&](const char* name, hid_t type) { types.emplace_back(name, OracleId(type)); };
  const std::pair<const char*, hid_t> standard[] = {{"i8", H5T_STD_I8LE},
                                                    {"u8", H5T_STD_U8LE},
                                                    {"i16", H5T_STD_I16LE},
                                                    {"u16", H5T_STD_U16BE},
                                                    {"i32", H5T_STD_I32BE},
                                                    {"u32", H5T_STD_U32LE},
                                                    {"i64", H5T_STD_I64LE},
                                                    {"u64", H5T_STD_U64BE},
                                                    {"f32", H5T_IEEE_F32LE},
                                                    {"f64", H5T_IEEE_F64BE},
                                                    {"bits", H5T_STD_B16BE},
                                                    {"reference", H5T_STD_REF_OBJ},
                                                    {"region", H5T_STD_REF_DSETREG},
                                                    {"time", H5T_UNIX_D32LE}};
  for (const auto& [name, type] : standard) add(name, H5Tcopy(type));
  const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(half, 15, 10, 5, 0, 10);
  H5Tset_size(half, 2);
  H5Tset_ebias(half, 15);
  add("f16", half);
  const hid_t odd = H5Tcopy(H5T_STD_I32LE);
  H5Tset_precision(odd, 20);
  add("i20", odd);
  for (const H5T_str_t padding : {H5T_STR_NULLTERM, H5T_STR_NULLPAD, H5T_STR_SPACEPAD}) {
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 10);
    H5Tset_strpad(text, padding);
    add(("text" + std::to_string(padding)).c_str(), text);
  }
  add("variable text", H5Tcopy(variable_text()));
  add("sequence", H5Tvlen_create(H5T_STD_I16LE));
  const hid_t boolean = H5Tenum_create(H5T_NATIVE_INT8);
  std::int8_t value = 0;
  H5Tenum_insert(boolean, "FALSE", &value);
  value = 1;
  H5Tenum_insert(boolean, "TRUE", &value);
  add("boolean", boolean);
  const hid_t colours = H5Tenum_create(H5T_STD_U16LE);
  for (std::uint16_t i = 0; i < 100; ++i)
    H5Tenum_insert(colours, ("colour " + std::to_string(i)).c_str(), &i);
  add("enumeration", colours);
  const hsize_t shape[] = {2, 3, 4};
  const hid_t array = H5Tarray_create2(H5T_STD_I32BE, 3, shape);
  add("opaque", H5Tcreate(H5T_OPAQUE, 7));
  const hid_t compound = H5Tcreate(H5T_COMPOUND, 300);
  H5Tinsert(compound, "number", 0, H5T_IEEE_F64LE);
  H5Tinsert(compound, "a name that is longer", 100, H5T_STD_I8LE);
  H5Tinsert(compound, "array", 104, array);
  H5Tinsert(compound, "boolean", 299, boolean);
  const hid_t outer = H5Tcreate(H5T_COMPOUND, 400);
  H5Tinsert(outer, "inner", 50, compound);
  H5Tinsert(outer, "text", 8, variable_text());
  add("array", array);
  add("compound", compound);
  add("compound of compounds", outer);
  return types;
}

TEST_P(Formats, DatatypesOfEveryClass) {
  {
    const OracleId file = create();
    const OracleId space = vector_space(3);
    for (const auto& [name, type] : all_types()) {
      make_dataset(file, name, type, space);
      if (name == "region" || name == "reference") continue;
      const OracleId attribute(
          H5Acreate2(file, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT));
      EXPECT_GE(hid_t{attribute}, 0) << name;
      if (name.find("ariable") == std::string::npos &&
          name.find("compounds") == std::string::npos && name != "sequence") {
        const std::vector<std::byte> zeros(H5Tget_size(type) * 3);
        H5Awrite(attribute, type, zeros.data());
      }
    }
    const OracleId committed(H5Tcopy(H5T_STD_I16LE));
    H5Tcommit2(file, "committed", committed, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    make_dataset(file, "of a committed type", committed, space);
    const OracleId attribute(
        H5Acreate2(file, "of a committed type", committed, space, H5P_DEFAULT, H5P_DEFAULT));
    const std::array<std::int16_t, 3> values{1, -2, 3};
    H5Awrite(attribute, H5T_NATIVE_INT16, values.data());
  }
  compare();
  const File file = open_file(path());
  EXPECT_TRUE(file.find("boolean")->dataset().datatype().is_boolean());
  EXPECT_FALSE(file.find("enumeration")->dataset().datatype().is_boolean());
  EXPECT_EQ(file.find("f16")->dataset().datatype().description(), "float16");
  EXPECT_EQ(file.find("f64")->dataset().datatype().description(), "big-endian float64");
  EXPECT_FALSE(file.find("i20")->dataset().datatype().is_standard);
  EXPECT_EQ(file.find("committed")->kind(), ObjectKind::kDatatype);
  EXPECT_EQ(file.root().integers_attribute("of a committed type"),
            (std::vector<std::int64_t>{1, -2, 3}));
}

TEST_P(Formats, DataspacesLayoutsFiltersAndFillValues) {
  {
    const OracleId file = create();
    make_dataset(file, "scalar", H5T_STD_I32LE, OracleId(H5Screate(H5S_SCALAR)));
    make_dataset(file, "null", H5T_STD_I32LE, OracleId(H5Screate(H5S_NULL)));
    std::vector<hsize_t> shape(32, 1);
    shape[31] = 3;
    make_dataset(file, "32 dimensions", H5T_STD_I8LE,
                 OracleId(H5Screate_simple(32, shape.data(), nullptr)));
    make_dataset(file, "none", H5T_STD_I8LE, vector_space(0));
    const OracleId compact(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_layout(compact, H5D_COMPACT);
    make_dataset(file, "compact", H5T_STD_I64LE, vector_space(5), compact);
    const hsize_t now[] = {100, 20};
    for (const hsize_t most : {hsize_t{100}, hsize_t{1000}, hsize_t{H5S_UNLIMITED}})
      for (const hsize_t other : {hsize_t{20}, hsize_t{H5S_UNLIMITED}})
        for (const bool is_filtered : {false, true})
          for (const hsize_t length : {hsize_t{10}, hsize_t{100}}) {
            // libhdf5 cannot read what it writes without bound in lengths of four bytes.
            if (GetParam().length_size < 8 && (most == H5S_UNLIMITED || other == H5S_UNLIMITED))
              continue;
            const OracleId chunked(H5Pcreate(H5P_DATASET_CREATE));
            const hsize_t chunk[] = {length, 20};
            H5Pset_chunk(chunked, 2, chunk);
            if (is_filtered) {
              H5Pset_shuffle(chunked);
              H5Pset_deflate(chunked, 4);
              H5Pset_fletcher32(chunked);
            }
            const std::int16_t fill = 77;
            H5Pset_fill_value(chunked, H5T_NATIVE_INT16, &fill);
            if (length == 10) H5Pset_alloc_time(chunked, H5D_ALLOC_TIME_EARLY);
            const hsize_t largest[] = {most, other};
            const std::string name =
                fmt::format("chunked {} {} {} {}", most, other, is_filtered, length);
            make_dataset(file, name, H5T_STD_I16BE, OracleId(H5Screate_simple(2, now, largest)),
                         chunked);
          }
  }
  EXPECT_EQ(compare().n_objects, 1 + 5 + (GetParam().length_size < 8 ? 8 : 24));
}

std::string message_of(ErrorKind kind, const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST_P(Formats, WhatLiesInOtherFilesIsRefusedByName) {
  {
    const OracleId file = create();
    H5Lcreate_external("other.h5", "/a/b", file, "external", H5P_DEFAULT, H5P_DEFAULT);
    const OracleId external(H5Pcreate(H5P_DATASET_CREATE));
    H5Pset_external(external, "other.raw", 0, 40);
    make_dataset(file, "external storage", H5T_STD_I32LE, vector_space(10), external);
    if (GetParam().low == H5F_LIBVER_LATEST) {
      const OracleId layout(H5Pcreate(H5P_DATASET_CREATE));
      const OracleId space = vector_space(10);
      H5Pset_virtual(layout, space, "source.h5", "data", space);
      make_dataset(file, "virtual", H5T_STD_I32LE, space, layout);
    }
  }
  const File file = open_file(path());
  EXPECT_THAT(message_of(ErrorKind::kUnsupported, [&] { file.find("external/x"); }),
              HasSubstr("'external/x' is a link to another file, and nothing outside of a file is "
                        "read: 'other.h5:/a/b'"));
  EXPECT_THAT(
      message_of(ErrorKind::kUnsupported, [&] { file.find("external storage")->dataset(); }),
      HasSubstr("'external storage' is stored in another file, and nothing outside of a file is "
                "read: 'other.raw'"));
  if (GetParam().low == H5F_LIBVER_LATEST) {
    EXPECT_THAT(message_of(ErrorKind::kUnsupported, [&] { file.find("virtual")->dataset(); }),
                HasSubstr("is a virtual dataset over another file, and nothing outside of a file "
                          "is read: 'source.h5'"));
  }
}

TEST_P(Formats, SoftLinksInACircleAreAnError) {
  {
    const OracleId file = create();
    H5Lcreate_soft("b", file, "a", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/a", file, "b", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("self/self", file, "self", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("nowhere", file, "dangling", H5P_DEFAULT, H5P_DEFAULT);
    for (int i = 0; i < 15; ++i)
      H5Lcreate_soft(("chain " + std::to_string(i + 1)).c_str(), file,
                     ("chain " + std::to_string(i)).c_str(), H5P_DEFAULT, H5P_DEFAULT);
    make_group(file, "chain 15");
  }
  const File file = open_file(path());
  for (const char* name : {"a", "b", "self"})
    EXPECT_THAT(message_of(ErrorKind::kCorruptData, [&] { file.find(name); }),
                HasSubstr("in a circle"));
  EXPECT_FALSE(file.find("dangling"));
  EXPECT_TRUE(file.find("chain 0"));
}

TEST(File, WhatIsNoHdf5FileIsNamed) {
  const auto message = [](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return message_of(ErrorKind::kCorruptData, [&] {
      File::open(io::make_memory_source("some.h5", {bytes.begin(), bytes.end()}));
    });
  };
  EXPECT_THAT(message(""), HasSubstr("the file is empty (0 bytes)"));
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1\n"),
              HasSubstr("Git LFS pointer"));
  EXPECT_THAT(message(std::string(5000, 'x')), HasSubstr("not an HDF5 file"));
  EXPECT_THAT(message("\x89HDF\r\n\x1a\n"), HasSubstr("superblock at offset 0"));
}

// Real files, where they are.
TEST(File, RealFilesAreWhatLibhdf5Finds) {
  const char* root = std::getenv("CELLFEED_TEST_DATA");
  const std::filesystem::path data = root != nullptr ? root : "../shared/data";
  int n_files = 0;
  for (const char* folder : {"anndata", "odd", "tenx"}) {
    if (!std::filesystem::is_directory(data / folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data / folder)) {
      const std::string path = entry.path().string();
      if (!path.ends_with(".h5ad") && !path.ends_with(".h5")) continue;
      try {
        const File file = open_file(path);
        EXPECT_GT(Hdf5Oracle::compare(file, path).n_objects, 1) << path;
        ++n_files;
      } catch (const Error& error) {
        EXPECT_LT(hid_t{OracleId(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT))}, 0)
            << error.what();
      }
    }
  }
  if (n_files == 0) GTEST_SKIP() << "no real files in " << data;
}

}  // namespace
}  // namespace cellfeed::hdf5
