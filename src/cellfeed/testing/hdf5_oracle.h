// Compares what hdf5::File finds in a file with what libhdf5 finds: every object, link, attribute,
// datatype, shape, layout and filter. Not thread-safe: libhdf5 is not.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/hdf5/file.h"

namespace cellfeed::testing {

// Owns one identifier of libhdf5.
class OracleId {
 public:
  explicit OracleId(hid_t id) : id_(id) {}
  OracleId(OracleId&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  OracleId& operator=(OracleId&&) = delete;
  ~OracleId() {
    if (id_ >= 0) H5Idec_ref(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT: stands for the identifier

 private:
  hid_t id_;
};

class Hdf5Oracle {
 public:
  // Everything below the root; counts what it compared.
  struct Compared {
    int n_objects = 0;
    int n_attributes = 0;
  };
  static Compared compare(const hdf5::File& file, const std::string& path) {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    Hdf5Oracle oracle(file);
    const OracleId id(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
    EXPECT_GE(hid_t{id}, 0) << path;
    if (id < 0) return {};
    const OracleId root(H5Gopen2(id, "/", H5P_DEFAULT));
    oracle.compare_object(root, file.root());
    return oracle.compared_;
  }

 private:
  explicit Hdf5Oracle(const hdf5::File& file) : file_(file) {}

  void compare_object(hid_t id, const hdf5::Object& object) {
    SCOPED_TRACE(file_.path() + ":" + object.path());
    H5O_info_t info;
    ASSERT_GE(H5Oget_info2(id, &info, H5O_INFO_BASIC), 0);
    EXPECT_EQ(object.address(), info.addr);
    if (!visited_.insert(object.address()).second) return;
    ++compared_.n_objects;
    compare_attributes(id, object);
    switch (info.type) {
      case H5O_TYPE_GROUP:
        ASSERT_EQ(object.kind(), hdf5::ObjectKind::kGroup);
        return compare_group(id, object.group());
      case H5O_TYPE_DATASET:
        ASSERT_EQ(object.kind(), hdf5::ObjectKind::kDataset);
        return compare_dataset(id, object.dataset());
      default:
        EXPECT_EQ(object.kind(), hdf5::ObjectKind::kDatatype);
    }
  }

  void compare_group(hid_t id, const hdf5::Group& group) {
    std::vector<std::string> names;
    const auto append = [](hid_t, const char* name, const H5L_info_t*, void* out) -> herr_t {
      static_cast<std::vector<std::string>*>(out)->emplace_back(name);
      return 0;
    };
    ASSERT_GE(H5Literate(id, H5_INDEX_NAME, H5_ITER_INC, nullptr, append, &names), 0);
    ASSERT_EQ(group.member_names(), names);
    for (const hdf5::Link& link : group.members()) {
      H5L_info_t info;
      ASSERT_GE(H5Lget_info(id, link.name.c_str(), &info, H5P_DEFAULT), 0);
      if (info.type == H5L_TYPE_HARD) {
        ASSERT_EQ(link.kind, hdf5::LinkKind::kHard) << link.name;
        const OracleId member(H5Oopen(id, link.name.c_str(), H5P_DEFAULT));
        const auto found = group.find(link.name);
        ASSERT_TRUE(found) << link.name;
        compare_object(member, *found);
      } else if (info.type == H5L_TYPE_SOFT) {
        ASSERT_EQ(link.kind, hdf5::LinkKind::kSoft) << link.name;
        std::string target(info.u.val_size, '\0');
        H5Lget_val(id, link.name.c_str(), target.data(), target.size(), H5P_DEFAULT);
        EXPECT_EQ(link.target, target.c_str());
      } else {
        EXPECT_TRUE(link.kind == hdf5::LinkKind::kExternal ||
                    link.kind == hdf5::LinkKind::kUserDefined);
      }
    }
  }

  void compare_dataset(hid_t id, const hdf5::Dataset& dataset) {
    compare_type(OracleId(H5Dget_type(id)), dataset.datatype());
    compare_space(OracleId(H5Dget_space(id)), dataset.space());
    const OracleId properties(H5Dget_create_plist(id));
    const H5D_layout_t layout = H5Pget_layout(properties);
    EXPECT_EQ(layout == H5D_COMPACT, std::holds_alternative<hdf5::CompactLayout>(dataset.layout()));
    EXPECT_EQ(layout == H5D_CONTIGUOUS,
              std::holds_alternative<hdf5::ContiguousLayout>(dataset.layout()));
    if (const auto* contiguous = std::get_if<hdf5::ContiguousLayout>(&dataset.layout())) {
      const haddr_t offset = H5Dget_offset(id);
      if (dataset.bytes().base_address() == 0) {
        EXPECT_EQ(contiguous->address, offset);
      }
    }
    if (layout == H5D_CHUNKED) {
      const auto* chunked = std::get_if<hdf5::ChunkedLayout>(&dataset.layout());
      ASSERT_NE(chunked, nullptr);
      std::vector<hsize_t> shape(dataset.shape().size());
      H5Pget_chunk(properties, static_cast<int>(shape.size()), shape.data());
      EXPECT_EQ(chunked->chunk_shape, std::vector<std::uint64_t>(shape.begin(), shape.end()));
    }
    compare_filters(properties, dataset);
    compare_fill_value(OracleId(H5Dget_type(id)), properties, dataset);
  }

  static void compare_filters(hid_t properties, const hdf5::Dataset& dataset) {
    const int n = H5Pget_nfilters(properties);
    ASSERT_EQ(std::ssize(dataset.filters()), n);
    for (int i = 0; i < n; ++i) {
      unsigned flags = 0;
      std::vector<unsigned> values(64);
      std::size_t n_values = values.size();
      const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags,
                                                 &n_values, values.data(), 0, nullptr, nullptr);
      values.resize(std::min<std::size_t>(n_values, 64));
      const auto& ours = dataset.filters()[static_cast<std::size_t>(i)];
      EXPECT_EQ(ours.id, filter);
      EXPECT_EQ(ours.is_optional, (flags & H5Z_FLAG_OPTIONAL) != 0);
      EXPECT_EQ(ours.client_values, std::vector<std::uint32_t>(values.begin(), values.end()));
    }
  }

  static void compare_fill_value(hid_t type, hid_t properties, const hdf5::Dataset& dataset) {
    H5D_fill_value_t kind;
    if (H5Pfill_value_defined(properties, &kind) < 0 || kind != H5D_FILL_VALUE_USER_DEFINED) return;
    if (holds_variable_length(type)) return;
    std::vector<std::byte> value(H5Tget_size(type));
    ASSERT_GE(H5Pget_fill_value(properties, type, value.data()), 0);
    const auto ours = dataset.fill_value().view();
    EXPECT_EQ(std::vector<std::byte>(ours.begin(), ours.end()), value);
  }

  static void compare_space(hid_t space, const hdf5::Dataspace& ours) {
    const H5S_class_t kind = H5Sget_simple_extent_type(space);
    EXPECT_EQ(kind == H5S_NULL, ours.kind == hdf5::Dataspace::Kind::kNull);
    std::vector<hsize_t> shape(
        static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space))));
    std::vector<hsize_t> most(shape.size());
    H5Sget_simple_extent_dims(space, shape.data(), most.data());
    EXPECT_EQ(ours.shape, std::vector<std::uint64_t>(shape.begin(), shape.end()));
    // libhdf5 does not widen what lengths of four bytes say.
    for (hsize_t& length : most)
      if (length == 0xffffffff) length = hdf5::kUnlimited;
    EXPECT_EQ(ours.max_shape, std::vector<std::uint64_t>(most.begin(), most.end()));
    EXPECT_EQ(ours.n_elements, static_cast<std::uint64_t>(H5Sget_simple_extent_npoints(space)));
  }

  // libhdf5 says the sizes of such types in memory, not those in the file.
  static bool holds_variable_length(hid_t type) {
    if (H5Tis_variable_str(type) > 0) return true;
    switch (H5Tget_class(type)) {
      case H5T_VLEN:
      case H5T_REFERENCE:
        return true;
      case H5T_ARRAY:
        return holds_variable_length(OracleId(H5Tget_super(type)));
      case H5T_COMPOUND:
        for (int i = 0; i < H5Tget_nmembers(type); ++i)
          if (holds_variable_length(OracleId(H5Tget_member_type(type, static_cast<unsigned>(i)))))
            return true;
        return false;
      default:
        return false;
    }
  }

  static void compare_type(hid_t type, const hdf5::Datatype& ours) {
    if (!holds_variable_length(type)) {
      ASSERT_EQ(ours.size, H5Tget_size(type));
    }
    const H5T_class_t type_class = H5Tget_class(type);
    if (H5Tis_variable_str(type) > 0) {
      EXPECT_TRUE(ours.is_variable_text());
      return;
    }
    ASSERT_EQ(static_cast<int>(ours.type_class), static_cast<int>(type_class));
    switch (type_class) {
      case H5T_INTEGER:
        EXPECT_EQ(ours.is_signed, H5Tget_sign(type) == H5T_SGN_2);
        [[fallthrough]];
      case H5T_FLOAT:
        EXPECT_EQ(ours.is_big_endian, H5Tget_order(type) == H5T_ORDER_BE);
        EXPECT_EQ(ours.is_standard,
                  H5Tget_precision(type) == ours.size * 8 && H5Tget_offset(type) == 0);
        return;
      case H5T_STRING:
        EXPECT_EQ(static_cast<int>(ours.padding), static_cast<int>(H5Tget_strpad(type)));
        EXPECT_EQ(ours.is_utf8, H5Tget_cset(type) == H5T_CSET_UTF8);
        return;
      case H5T_COMPOUND:
        return compare_members(type, ours);
      case H5T_ENUM:
        return compare_enumeration(type, ours);
      case H5T_ARRAY: {
        std::vector<hsize_t> shape(static_cast<std::size_t>(H5Tget_array_ndims(type)));
        H5Tget_array_dims2(type, shape.data());
        EXPECT_EQ(ours.array_shape, std::vector<std::uint64_t>(shape.begin(), shape.end()));
        [[fallthrough]];
      }
      case H5T_VLEN:
        return compare_type(OracleId(H5Tget_super(type)), *ours.base);
      default:
        return;
    }
  }

  static void compare_members(hid_t type, const hdf5::Datatype& ours) {
    ASSERT_EQ(std::ssize(ours.members), H5Tget_nmembers(type));
    for (unsigned i = 0; i < ours.members.size(); ++i) {
      char* name = H5Tget_member_name(type, i);
      EXPECT_EQ(ours.members[i].name, name);
      H5free_memory(name);
      if (!holds_variable_length(type)) {
        EXPECT_EQ(ours.members[i].offset, H5Tget_member_offset(type, i));
      }
      compare_type(OracleId(H5Tget_member_type(type, i)), *ours.members[i].type);
    }
  }

  static void compare_enumeration(hid_t type, const hdf5::Datatype& ours) {
    ASSERT_EQ(std::ssize(ours.enum_names), H5Tget_nmembers(type));
    for (unsigned i = 0; i < ours.enum_names.size(); ++i) {
      char* name = H5Tget_member_name(type, i);
      EXPECT_EQ(ours.enum_names[i], name);
      H5free_memory(name);
      std::vector<std::byte> value(ours.size);
      H5Tget_member_value(type, i, value.data());
      EXPECT_EQ(0, std::memcmp(value.data(), ours.enum_values.data() + i * ours.size, ours.size));
    }
  }

  void compare_attributes(hid_t id, const hdf5::Object& object) {
    H5O_info_t info;
    H5Oget_info2(id, &info, H5O_INFO_NUM_ATTRS);
    ASSERT_EQ(static_cast<hsize_t>(object.attributes().size()), info.num_attrs);
    for (const hdf5::Attribute& attribute : object.attributes()) {
      SCOPED_TRACE("attribute " + attribute.name);
      const OracleId theirs(H5Aopen(id, attribute.name.c_str(), H5P_DEFAULT));
      ASSERT_GE(hid_t{theirs}, 0);
      ++compared_.n_attributes;
      const OracleId type(H5Aget_type(theirs));
      const OracleId space(H5Aget_space(theirs));
      compare_type(type, attribute.type);
      compare_space(space, attribute.space);
      compare_value(theirs, type, space, object, attribute);
    }
  }

  static void compare_value(hid_t theirs, hid_t type, hid_t space, const hdf5::Object& object,
                            const hdf5::Attribute& attribute) {
    const auto n = static_cast<std::size_t>(attribute.space.n_elements);
    if (n == 0) return;
    if (H5Tis_variable_str(type) > 0) {
      std::vector<char*> texts(n);
      ASSERT_GE(H5Aread(theirs, type, static_cast<void*>(texts.data())), 0);
      const auto ours = object.texts_attribute(attribute.name);
      ASSERT_TRUE(ours);
      for (std::size_t i = 0; i < n; ++i)
        EXPECT_EQ((*ours)[i], texts[i] == nullptr ? "" : texts[i]);
      H5Dvlen_reclaim(type, space, H5P_DEFAULT, static_cast<void*>(texts.data()));
      return;
    }
    if (holds_variable_length(type)) return;
    std::vector<std::byte> value(n * attribute.type.size);
    ASSERT_GE(H5Aread(theirs, type, value.data()), 0);
    const auto ours = attribute.value.view();
    EXPECT_EQ(std::vector<std::byte>(ours.begin(), ours.end()), value);
  }

  const hdf5::File& file_;
  std::set<hdf5::Address> visited_;
  Compared compared_;
};

}  // namespace cellfeed::testing
