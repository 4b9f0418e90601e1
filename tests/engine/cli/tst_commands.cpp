#include "engine/cli/command.h"
#include "tests/engine/checkpoint_writer.h"

#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <streambuf>

using namespace octavo::cli;

class TestCommands : public QObject
{
    Q_OBJECT

    struct Run {
        int status = -1;
        std::string out, err;
    };

    static Run run(const std::vector<std::string>& words, const std::string& input = {})
    {
        std::istringstream in(input);
        std::ostringstream out, err;
        Streams streams{in, out, err};
        const int status = runEngineCommand(words, streams);
        return {status, out.str(), err.str()};
    }

private slots:
    void initTestCase() { qputenv("OCTAVO_RESOURCES", OCTAVO_RESOURCES); }

    void everyCommandHasHelp()
    {
        for (const Command& command : commands()) {
            const Run help = run({command.name, "--help"});
            QCOMPARE(help.status, 0);
            QVERIFY(help.err.empty());
            QVERIFY(help.out.starts_with("usage: octavo-engine " + command.name));
            for (const OptionSpec& option : command.options) {
                QVERIFY2(help.out.find("  " + option.name) != std::string::npos, option.name.c_str());
                QVERIFY2(!option.help.empty(), option.name.c_str());
            }
            QVERIFY(run({"--help"}).out.find(command.summary) != std::string::npos);
        }
    }

    void helpThatCannotBeWrittenIsAFailure()
    {
        for (const std::vector<std::string>& words : {std::vector<std::string>{"--help"}, {"eval", "--help"}}) {
            std::istringstream in;
            std::ofstream out("/dev/full");
            std::ostringstream err;
            Streams streams{in, out, err};
            QCOMPARE(runEngineCommand(words, streams), 1);
            QVERIFY2(err.str().find("could not be written") != std::string::npos, err.str().c_str());
        }
    }

    void aFileOfAnotherKindIsNotWrittenOver()
    {
        const QTemporaryDir dir;
        QFile notes(dir.filePath("notes.txt"));
        QVERIFY(notes.open(QIODevice::WriteOnly) && notes.write("my notes") == 8);
        notes.close();
        const Run refused = run({"bench", "decode", "--device", "cpu", "--context", "64", "--seconds", "0.1", "--state",
                                 dir.filePath("notes.txt").toStdString()});
        QCOMPARE(refused.status, 2);
        QVERIFY2(refused.err.find("is no reading that was kept") != std::string::npos, refused.err.c_str());
        QVERIFY(notes.open(QIODevice::ReadOnly));
        QCOMPARE(notes.readAll(), QByteArray("my notes"));
    }

    void sparseAndDenseDecodingAreComparedInTurns()
    {
        const Run compared = run({"bench", "decode", "--device", "cpu", "--context", "40000", "--noise", "--compare",
                                  "--seconds", "0.1", "--json"});
        QVERIFY2(compared.status == 0, compared.err.c_str());
        const auto line = nlohmann::json::parse(compared.out);
        QCOMPARE(line["mode"].get<std::string>(), std::string("compare"));
        QVERIFY(line["turns"].get<int>() >= 1);
        QVERIFY(line["sparse_steps"].get<int>() > 0); // of one of the two backends
        const double ratio = line["speedup_median"].get<double>();
        QVERIFY(line["speedup_quartiles"][0].get<double>() <= ratio);
        QVERIFY(line["speedup_quartiles"][1].get<double>() >= ratio);
        const Run both =
            run({"bench", "decode", "--device", "cpu", "--context", "256", "--compare", "--sparse", "off"});
        QVERIFY2(both.status == 2 && both.err.find("leave --sparse out") != std::string::npos, both.err.c_str());
        const Run refused = run({"bench", "prefill", "--compare"});
        QCOMPARE(refused.status, 2);
    }

    void aShortContextThatIsReadWholeSaysWhy()
    {
        const auto decode = [](const QString& context, const QString& more) {
            std::vector<std::string> words{"bench",     "decode", "--device", "cpu", "--noise",
                                           "--seconds", "0.1",    "--sparse", "on"};
            words.insert(words.end(), {"--context", context.toStdString()});
            if (!more.isEmpty())
                words.push_back(more.toStdString());
            return run(words);
        };
        const Run dense = decode("3000", "--json");
        QVERIFY2(dense.status == 0, dense.err.c_str());
        const auto line = nlohmann::json::parse(dense.out);
        QCOMPARE(line["mode"].get<std::string>(), std::string("dense"));
        QVERIFY(line["mode_because"].get<std::string>().starts_with("all rows are read"));
        QVERIFY(decode("3000", {}).out.find("dense: all rows are read") != std::string::npos);
        const auto sparse = nlohmann::json::parse(decode("6000", "--json").out);
        QVERIFY(sparse["mode"] == "sparse" && !sparse.contains("mode_because"));
    }

    void oneTokenIsNoPlural()
    {
        const Run one = run({"generate", "--ids", "-", "--max-tokens", "1", "--device", "cpu"}, "5");
        QVERIFY2(one.err.find("1 token read") != std::string::npos, one.err.c_str());
    }

    void whatOthersNamedCannotSteerTheTerminal()
    {
        const Run refused = run({"doctor", "/nonexistent/a\x1b[31m\nb"});
        QCOMPARE(refused.status, 1);
        QCOMPARE(std::ranges::count(refused.err, '\n'), 1);
        QCOMPARE(std::ranges::count(refused.err, '\x1b'), 0);
    }

    void wrongUsageIsStatusTwoAndOneLine_data()
    {
        QTest::addColumn<QStringList>("words");
        QTest::newRow("unknown command") << QStringList{"fly"};
        QTest::newRow("unknown option") << QStringList{"tokenize", "--fast"};
        QTest::newRow("stray argument") << QStringList{"tokenize", "text"};
        QTest::newRow("an option of another bench") << QStringList{"bench", "mixed", "--shape", "qwen3.5-27b"};
        QTest::newRow("rows of a read") << QStringList{"bench", "prefill", "--rows", "4"};
        QTest::newRow("eight readers at a time") << QStringList{"bench", "prefill", "--agents", "8"};
        QTest::newRow("a context beyond the model's") << QStringList{"bench", "decode", "--context", "300000"};
        QTest::newRow("a context beyond all numbers")
            << QStringList{"bench", "tier", "--text", ".", "--context", "9223372036854775807"};
        QTest::newRow("no prompt") << QStringList{"generate"};
        QTest::newRow("two prompts") << QStringList{"generate", "--prompt", "a", "--ids", "b"};
        QTest::newRow("bad number") << QStringList{"generate", "--prompt", "a", "--max-tokens", "many"};
        QTest::newRow("bad draft mode") << QStringList{"generate", "--prompt", "a", "--draft", "maybe"};
        QTest::newRow("bad sparse mode") << QStringList{"generate", "--prompt", "a", "--sparse", "maybe"};
        QTest::newRow("no such kind of device") << QStringList{"generate", "--prompt", "a", "--device", "tpu"};
        QTest::newRow("no rule of picks") << QStringList{"bench", "decode", "--pick-rule", "best"};
        QTest::newRow("no picks") << QStringList{"bench", "decode", "--picks", "0"};
        QTest::newRow("no number of a GPU") << QStringList{"generate", "--prompt", "a", "--device", "cuda:-1"};
        QTest::newRow("more threads than help") << QStringList{"generate", "--prompt", "a", "--threads", "65536"};
        QTest::newRow("empty folder for contexts") << QStringList{"generate", "--prompt", "a", "--saved-contexts", ""};
    }

    void wrongUsageIsStatusTwoAndOneLine()
    {
        QFETCH(const QStringList, words);
        std::vector<std::string> given;
        for (const QString& word : words)
            given.push_back(word.toStdString());
        const Run failed = run(given);
        QCOMPARE(failed.status, 2);
        QVERIFY(failed.out.empty());
        QCOMPARE(std::ranges::count(failed.err, '\n'), 1);
    }

    void whatDoesNotWorkIsStatusOneAndOneLine_data()
    {
        QTest::addColumn<QStringList>("words");
        QTest::addColumn<QString>("part");
        QTest::newRow("no model there") << QStringList{"generate", "--prompt", "a", "--model", "/nowhere"}
                                        << "/nowhere";
        QTest::newRow("no tokenizer there") << QStringList{"tokenize", "--model", "/nowhere"} << "/nowhere";
        QTest::newRow("no such file of ids") << QStringList{"generate", "--ids", "/nowhere/ids"} << "/nowhere/ids";
        QTest::newRow("ids from a folder") << QStringList{"generate", "--ids", "/"} << "is a folder";
        QTest::newRow("ids without end") << QStringList{"generate", "--ids", "/dev/zero"} << "more than the 256 MiB";
        QTest::newRow("contexts where no folder can be")
            << QStringList{"generate", "--prompt", "a", "--saved-contexts", "/dev/null/x"} << "/dev/null/x";
        QTest::newRow("context too small")
            << QStringList{"generate", "--prompt", "a b c d e f g", "--context-limit", "4"} << "limit 4";
    }

    void whatDoesNotWorkIsStatusOneAndOneLine()
    {
        QFETCH(const QStringList, words);
        QFETCH(const QString, part);
        std::vector<std::string> given;
        for (const QString& word : words)
            given.push_back(word.toStdString());
        const Run failed = run(given);
        QCOMPARE(failed.status, 1);
        QVERIFY2(failed.err.find(part.toStdString()) != std::string::npos, failed.err.c_str());
    }

    void anInputThatCannotBeReadIsNoEmptyText()
    {
        struct Failing : std::streambuf {
            int_type underflow() override { throw std::runtime_error("disk"); }
        } failing;
        std::istream in(&failing);
        std::ostringstream out, err;
        Streams streams{in, out, err};
        QCOMPARE(runEngineCommand(std::vector<std::string>{"tokenize", "--json"}, streams), 1);
        QVERIFY(out.str().empty());
        QVERIFY2(err.str().find("standard input cannot be read") != std::string::npos, err.str().c_str());
    }

    void oneTokenHasNoRate()
    {
        const Run one = run({"generate", "--prompt", "def main():", "--max-tokens", "1", "--json"});
        QVERIFY(nlohmann::json::parse(one.out)["tokens_per_s"].is_null());
        const Run two = run({"generate", "--prompt", "def main():", "--max-tokens", "3", "--json"});
        QVERIFY(nlohmann::json::parse(two.out)["tokens_per_s"].get<double>() > 0.0);
    }

    void aModelThatGivesNoNumbersIsNotMeasured()
    {
        using namespace octavo::engine::test;
        const QTemporaryDir dir;
        const std::string path = dir.path().toStdString();
        const auto config = octavo::engine::ModelConfig::parse(smallConfigJson(), "config.json");
        ModelWriter writer(*config, ModelForm{});
        writer.write(path);
        std::fstream file(path + "/model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(0, std::ios::end);
        const double size = double(file.tellg());
        const std::vector<std::uint32_t> bad(256, 0x7fc00000);
        for (const double part : {0.3, 0.5, 0.7, 0.9}) {
            file.seekp(std::streamoff(part * size) / 4 * 4);
            file.write(reinterpret_cast<const char*>(bad.data()), 1024);
        }
        file.close();
        std::ofstream(path + "/ids") << "1 2 3 4 5 6 7 8";
        const Run measured =
            run({"eval", "logprobs", "--model", path, "--ids", path + "/ids", "--cpu-path", "reference"});
        QCOMPARE(measured.status, 1);
        QVERIFY(measured.out.empty());
        QVERIFY2(measured.err.find("no finite score") != std::string::npos, measured.err.c_str());
    }

    void tokenizeTakesSpecialTextAsAsked()
    {
        const auto parsed = nlohmann::json::parse(run({"tokenize", "--json"}, "a<|im_end|>").out);
        const auto plain = nlohmann::json::parse(run({"tokenize", "--json", "--plain"}, "a<|im_end|>").out);
        QCOMPARE(parsed["ids"].back().get<int>(), 16378);
        QVERIFY(plain["ids"].size() > parsed["ids"].size());
        for (const int id : plain["ids"].get<std::vector<int>>())
            QVERIFY(id < 16376);
    }

    void devicesListsTheProcessor()
    {
        const auto line = nlohmann::json::parse(run({"devices", "--json"}).out);
        QCOMPARE(line["device"].get<std::string>(), std::string("cpu"));
        QVERIFY(line["memory_bytes"].get<long long>() >= line["memory_free_bytes"].get<long long>());
    }

    void generateGivesOneObjectAndTheSameAnswerForPromptAndIds()
    {
        const Run first = run({"generate", "--prompt", "def main():", "--max-tokens", "4", "--json"});
        QCOMPARE(first.status, 0);
        QCOMPARE(std::ranges::count(first.out, '\n'), 1);
        const auto answer = nlohmann::json::parse(first.out);
        QCOMPARE(answer["ids"].size(), std::size_t(4));
        QCOMPARE(answer["finish_reason"].get<std::string>(), std::string("length"));

        const std::string ids = run({"tokenize"}, "def main():").out;
        QTemporaryDir dir;
        const std::string file = dir.filePath("ids").toStdString();
        std::ofstream(file) << '[' << ids << ']';
        const Run second = run({"generate", "--ids", file, "--max-tokens", "4", "--json"});
        QCOMPARE(nlohmann::json::parse(second.out)["ids"].dump(), answer["ids"].dump());
        const Run third = run({"generate", "--ids", "-", "--max-tokens", "4"}, ids);
        QCOMPARE(third.out, answer["text"].get<std::string>() + "\n");
    }

    void evaluationsNameTheirFiguresAsTheContractDoes()
    {
        const QTemporaryDir dir;
        for (const char* name : {"orders", "parcels", "invoices"}) {
            std::ofstream file(dir.filePath(QString(name) + ".py").toStdString());
            for (int i = 0; i < 8; ++i)
                file << "def " << name << "_step_" << i << "(total):\n    return total * " << 3 * i + 1 << " + "
                     << name[0] - 'a' << "\n\n";
        }
        const std::vector<std::string> words{"eval", "kld",  "--text",    dir.path().toStdString(), "--context", "256",
                                             "--samples", "4", "--device", "cpu", "--json"};
        const Run kld = run(words);
        QVERIFY2(kld.status == 0, kld.err.c_str());
        const auto divergence = nlohmann::json::parse(kld.out);
        for (const char* key : {"mean", "p99", "top1", "samples"})
            QVERIFY2(divergence.contains(key) && divergence[key] == divergence["per_head_text"][key], key);
        std::vector<std::string> recallWords = words;
        recallWords[1] = "recall";
        const Run recall = run(recallWords);
        QVERIFY2(recall.status == 0, recall.err.c_str());
        const auto found = nlohmann::json::parse(recall.out);
        QCOMPARE(found["correct"].get<std::size_t>() + found["misses"].size(), found["total"].get<std::size_t>());
        QCOMPARE(found["dense_correct"].get<std::size_t>() + found["dense_misses"].size(),
                 found["total"].get<std::size_t>());
    }

    void aPlaceThatCannotKeepAReadingIsRefusedBeforeIt()
    {
        QTemporaryDir dir;
        const std::string file = dir.filePath("file").toStdString();
        std::ofstream(file) << "kept";
        for (const std::string& place : {file, std::string()}) {
            const Run kld =
                run({"eval", "kld", "--text", dir.path().toStdString(), "--device", "cpu", "--state", place});
            QCOMPARE(kld.status, place.empty() ? 2 : 1);
            QVERIFY2(kld.err.find("--state") != std::string::npos && kld.err.find("% of") == std::string::npos,
                     kld.err.c_str());
        }
    }

    void idsThatAreNoneAreRefused()
    {
        QCOMPARE(run({"generate", "--ids", "-"}, "1 2 x").status, 1);
        QCOMPARE(run({"generate", "--ids", "-"}, "1 2 99999").status, 2);
        QCOMPARE(run({"generate", "--ids", "-"}, "").status, 2);
        const Run large = run({"generate", "--ids", "-"}, "1 2 99999999999");
        QVERIFY2(large.err.find("byte 4 begins a number that is too large") != std::string::npos, large.err.c_str());
        const Run binary = run({"generate", "--ids", "-"}, std::string("1 \x01", 3));
        QVERIFY2(binary.err.find("byte 2 is 1, expected token ids") != std::string::npos, binary.err.c_str());
    }
};

QTEST_GUILESS_MAIN(TestCommands)
#include "tst_commands.moc"
