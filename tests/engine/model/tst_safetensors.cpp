#include "engine/model/safetensors.h"
#include "tests/engine/checkpoint_writer.h"

#include <QDir>
#include <QTemporaryDir>
#include <QTest>

using namespace octavo;
using namespace octavo::engine;
using namespace octavo::engine::test;

namespace
{

Result<SafetensorsHeader> parse(const std::string& file)
{
    return SafetensorsHeader::parse(std::as_bytes(std::span(file.data(), file.size())), file.size(), "weights");
}

std::string withLength(std::uint64_t length, std::string rest)
{
    std::string file(8, '\0');
    std::memcpy(file.data(), &length, 8);
    return file + rest;
}

/// Two tensors of 8 and 4 bytes.
std::string goodFile()
{
    SafetensorsWriter writer;
    writer.add<float>("a", "F32", {2, 1}, {1.0f, 2.0f});
    writer.add<std::uint16_t>("b", "BF16", {2}, {3, 4});
    return writer.bytes();
}

} // namespace

class TestSafetensors : public QObject
{
    Q_OBJECT

private slots:
    void readsNamesShapesAndOffsets();
    void damagedFilesGiveOneLineThatSaysWhatWasFoundAndExpected_data();
    void damagedFilesGiveOneLineThatSaysWhatWasFoundAndExpected();
    void everyTruncationIsRefused();
    void everyChangedHeaderByteIsReadOrRefused();
    void opensASingleFile();
    void opensShardsThroughTheIndexWithAnExtraOne();
    void brokenFoldersGiveOneLine_data();
    void brokenFoldersGiveOneLine();
};

void TestSafetensors::readsNamesShapesAndOffsets()
{
    const auto header = parse(goodFile());
    QVERIFY2(header, header ? "" : header.error().message.c_str());
    QCOMPARE(header->tensors.size(), std::size_t(2));
    QCOMPARE(header->tensors[0].name, std::string("a"));
    QCOMPARE(header->tensors[0].shape, (std::vector<std::int64_t>{2, 1}));
    QCOMPARE(header->tensors[1].dtype, DType::Bf16);
    QCOMPARE(header->tensors[1].begin, 8u);
    QCOMPARE(header->tensors[1].end, 12u);
    QCOMPARE(header->tensors[1].elements(), 2u);

    const auto withMetadata =
        parse(safetensorsBytes(R"({"__metadata__":{"format":"pt"},"x":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                               R"("empty":{"dtype":"F32","shape":[3,0],"data_offsets":[1,1]}})",
                               "z"));
    QVERIFY2(withMetadata, withMetadata ? "" : withMetadata.error().message.c_str());
    QCOMPARE(withMetadata->tensors.size(), std::size_t(2));
}

void TestSafetensors::damagedFilesGiveOneLineThatSaysWhatWasFoundAndExpected_data()
{
    QTest::addColumn<QByteArray>("file");
    QTest::addColumn<QByteArray>("says");
    auto add = [](const char* name, const std::string& file, const char* says) {
        QTest::newRow(name) << QByteArray(file.data(), qsizetype(file.size())) << QByteArray(says);
    };
    auto one = [](const std::string& tensor, const std::string& data = std::string(4, 'x')) {
        return safetensorsBytes("{\"x\":" + tensor + "}", data);
    };
    add("empty", "", "it is empty");
    add("seven bytes", "1234567", "7 bytes, fewer than the 8");
    add("a web page", "<!DOCTYPE html><html><body>Sign in</body></html>", "it is a web page");
    add("a web page after blanks", "\n\n  <HTML lang=en>" + std::string(100, ' '), "it is a web page");
    add("a Git LFS pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        "it is a Git LFS pointer");
    add("zero bytes", std::string(64, '\0'), "its header is not JSON");
    add("header bomb", withLength(std::uint64_t(1) << 63, "{}"),
        "its header claims 9223372036854775808 bytes, more than");
    add("header of 2^64-1", withLength(~std::uint64_t(0), "{}"), "claims 18446744073709551615 bytes");
    add("header beyond the file", withLength(1000, "{}"), "its header claims 1000 bytes, but only 2 follow");
    add("not JSON", safetensorsBytes("{\"x\":", ""), "its header is not JSON");
    add("not UTF-8", safetensorsBytes("{\"\xff\":{}}", ""), "its header is not JSON");
    add("a list", safetensorsBytes("[1]", ""), "instead of an object");
    add("deep", safetensorsBytes(std::string(90000, '['), ""), "instead of an object");
    add("deep in metadata", safetensorsBytes("{\"__metadata__\":{\"a\":" + std::string(5000, '['), ""), "has a list");
    add("a number for a tensor", one("3"), "has a number for \"x\"");
    add("unknown dtype", one(R"({"dtype":"Q4","shape":[4],"data_offsets":[0,4]})"), "the unknown dtype \"Q4\"");
    add("unknown key", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4],"k":1})"), "the unknown key \"k\"");
    add("a key twice", one(R"({"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]})"), "\"dtype\" twice");
    add("no shape", one(R"({"dtype":"U8","data_offsets":[0,4]})"), "only some of dtype, shape and data_offsets");
    add("one offset", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0]})"), "fewer than two data_offsets");
    add("three offsets", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4,4]})"), "more than two data_offsets");
    add("negative offset", one(R"({"dtype":"U8","shape":[4],"data_offsets":[-4,0]})"), "a negative number");
    add("a fraction", one(R"({"dtype":"U8","shape":[4.5],"data_offsets":[0,4]})"), "a fraction");
    add("an infinite number", one(R"({"dtype":"U8","shape":[1e999],"data_offsets":[0,4]})"), "not JSON");
    add("nine dimensions", one(R"({"dtype":"U8","shape":[4,1,1,1,1,1,1,1,1],"data_offsets":[0,4]})"),
        "more than 8 dimensions");
    add("dimension of 2^63", one(R"({"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,4]})"),
        "a dimension of 9223372036854775808");
    add("shape beyond 2^64", one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})"),
        "takes more than 2^64");
    add("shape that wraps to 4", one(R"({"dtype":"U8","shape":[4611686018427387905,4],"data_offsets":[0,4]})"),
        "takes more than 2^64");
    add("shape against length", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})"),
        "has 4 bytes, but F32 [2] takes 8");
    add("ends before it begins", one(R"({"dtype":"U8","shape":[0],"data_offsets":[4,0]})"), "ends before it begins");
    add("beyond the file", one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
        "the file holds only 4 (truncated)");
    add("offsets of 2^64",
        one(R"({"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]})"),
        "the file holds only 4");
    add("trailing bytes", one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", "xxxxyy"),
        "take 4 bytes, but 6 follow");
    add("a gap at the start", one(R"({"dtype":"U8","shape":[2],"data_offsets":[2,4]})"),
        "bytes 0..2 before \"x\" belong to no tensor");
    add("overlap",
        safetensorsBytes(
            R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "xxxx"),
        "\"b\" overlaps \"a\" (it begins at byte 2, expected 3)");
    add("the same bytes twice",
        safetensorsBytes(
            R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
            "xxxx"),
        "overlaps");
    add("a name twice",
        safetensorsBytes(
            R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "xxxx"),
        "the name a second time for \"a\"");
    add("a line break in a name",
        safetensorsBytes("{\"a\\nb\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,4]}}", "xxxx"),
        "\"a?b\" has 4 bytes");
}

void TestSafetensors::damagedFilesGiveOneLineThatSaysWhatWasFoundAndExpected()
{
    QFETCH(QByteArray, file);
    QFETCH(QByteArray, says);
    const auto header = parse(file.toStdString());
    QVERIFY(!header);
    QCOMPARE(header.error().code, ErrorCode::FormatInvalid);
    const QByteArray message = QByteArray::fromStdString(header.error().message);
    QVERIFY2(message.startsWith("weights is not a usable safetensors file: "), message.constData());
    QVERIFY2(message.contains(says), message.constData());
    QVERIFY2(message.endsWith(": download it again"), message.constData());
    QVERIFY(!message.contains('\n'));
    QVERIFY(message.size() < 500);
}

void TestSafetensors::everyTruncationIsRefused()
{
    const std::string file = goodFile();
    for (std::size_t size = 0; size < file.size(); ++size)
        QVERIFY2(!parse(file.substr(0, size)), qPrintable(QString::number(size)));
    QVERIFY(!parse(file + '\0'));
    QVERIFY(parse(file));
}

void TestSafetensors::everyChangedHeaderByteIsReadOrRefused()
{
    const std::string file = goodFile();
    int refused = 0;
    for (std::size_t at = 0; at < file.size() - 12; ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string changed = file;
            changed[at] = char(changed[at] ^ (1 << bit));
            const auto header = parse(changed);
            if (!header) {
                ++refused;
                continue;
            }
            for (const TensorInfo& tensor : header->tensors)
                QVERIFY(header->dataStart + tensor.end <= changed.size());
        }
    }
    QVERIFY(refused > 500);
}

void TestSafetensors::opensASingleFile()
{
    const QTemporaryDir dir;
    writeFile(dir.path().toStdString() + "/model.safetensors", goodFile());
    const auto checkpoint = Checkpoint::open(dir.path().toStdString());
    QVERIFY2(checkpoint, checkpoint ? "" : checkpoint.error().message.c_str());
    const TensorView* tensor = checkpoint->find("a");
    QVERIFY(tensor);
    float values[2] = {};
    QCOMPARE(tensor->bytes.size(), sizeof values);
    std::memcpy(values, tensor->bytes.data(), sizeof values);
    QCOMPARE(values[1], 2.0f);
    QVERIFY(!checkpoint->find("c"));
}

void TestSafetensors::opensShardsThroughTheIndexWithAnExtraOne()
{
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    SafetensorsWriter extra;
    extra.add<float>("mtp.fc.weight", "F32", {1}, {5.0f});
    writeFile(path + "/model.safetensors", goodFile());
    writeFile(path + "/model_extra_tensors.safetensors", extra.bytes());
    writeFile(path + "/model.safetensors.index.json",
              R"({"metadata": {"total_size": 16}, "weight_map": {"a": "model.safetensors", "b": "model.safetensors",
                  "mtp.fc.weight": "model_extra_tensors.safetensors"}})");
    const auto checkpoint = Checkpoint::open(path);
    QVERIFY2(checkpoint, checkpoint ? "" : checkpoint.error().message.c_str());
    QCOMPARE(checkpoint->numFiles(), std::size_t(2));
    QCOMPARE(checkpoint->tensors().size(), std::size_t(3));
    QVERIFY(checkpoint->find("mtp.fc.weight"));
}

void TestSafetensors::brokenFoldersGiveOneLine_data()
{
    QTest::addColumn<QByteArray>("index");
    QTest::addColumn<QByteArray>("says");
    QTest::newRow("no model at all") << QByteArray() << QByteArray("holds neither model.safetensors nor");
    QTest::newRow("missing shard")
        << QByteArray(R"({"weight_map": {"a": "good.safetensors", "c": "model-00002-of-00002.safetensors"}})")
        << QByteArray("/model-00002-of-00002.safetensors is missing: the index names it for 1 tensors (\"c\")");
    QTest::newRow("tensor not in its shard")
        << QByteArray(R"({"weight_map": {"a": "good.safetensors", "c": "good.safetensors"}})")
        << QByteArray("it places \"c\" in good.safetensors, which does not hold it");
    QTest::newRow("truncated shard") << QByteArray(R"({"weight_map": {"a": "cut.safetensors"}})")
                                     << QByteArray("/cut.safetensors is not a usable safetensors file");
    QTest::newRow("not JSON") << QByteArray("{") << QByteArray("it is not JSON");
    QTest::newRow("a list") << QByteArray("[]") << QByteArray("no object \"weight_map\"");
    QTest::newRow("a web page") << QByteArray("<html>") << QByteArray("it is a web page");
    QTest::newRow("a shard outside") << QByteArray(R"({"weight_map": {"a": "../good.safetensors"}})")
                                     << QByteArray("is not a file name");
    QTest::newRow("a number for a shard")
        << QByteArray(R"({"weight_map": {"a": 1}})") << QByteArray("is not a file name");
    QTest::newRow("a folder for a shard")
        << QByteArray(R"({"weight_map": {"a": "folder"}})") << QByteArray("it is a folder");
}

void TestSafetensors::brokenFoldersGiveOneLine()
{
    QFETCH(QByteArray, index);
    QFETCH(QByteArray, says);
    const QTemporaryDir dir;
    const std::string path = dir.path().toStdString();
    if (!index.isEmpty()) {
        writeFile(path + "/model.safetensors.index.json", index.toStdString());
        writeFile(path + "/good.safetensors", goodFile());
        writeFile(path + "/cut.safetensors", goodFile().substr(0, 40));
        QVERIFY(QDir(dir.path()).mkdir("folder"));
    }
    const auto checkpoint = Checkpoint::open(path);
    QVERIFY(!checkpoint);
    const QByteArray message = QByteArray::fromStdString(checkpoint.error().message);
    QVERIFY2(message.contains(says) && message.startsWith(dir.path().toUtf8()), message.constData());
    QVERIFY(!message.contains('\n'));
}

QTEST_GUILESS_MAIN(TestSafetensors)
#include "tst_safetensors.moc"
