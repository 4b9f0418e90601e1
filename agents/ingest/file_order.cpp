#include "agents/ingest/file_order.h"

#include <QList>

#include <algorithm>
#include <array>
#include <string_view>

namespace octavo::agents {

namespace {

using std::string_view;

constexpr std::array<string_view, 9> vendoredFolders = {
    "third_party", "third-party", "thirdparty", "3rdparty", "vendor", "vendored", "external", "node_modules", "deps"};
constexpr std::array<string_view, 8> testFolders = {"test",     "tests",      "testing", "testdata",
                                                    "examples", "benchmarks", "bench",   "fixtures"};
constexpr std::array<string_view, 6> licenceNames = {"license", "licence", "copying", "copyright", "notice", "patents"};
constexpr std::array<string_view, 6> changelogNames = {"changelog", "changes", "history",
                                                       "news",      "version", "releases"};
constexpr std::array<string_view, 11> lockFiles = {
    "cargo.lock", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "poetry.lock", "composer.lock", "gemfile.lock",
    "go.sum",     "pipfile.lock",      "uv.lock",   "flake.lock"};

constexpr std::array<string_view, 5> apiEndings = {".h", ".hh", ".hpp", ".hxx", ".pyi"};
constexpr std::array<string_view, 9> buildNames = {"cmakelists.txt", "makefile",    "gnumakefile",
                                                   "meson.build",    "authors",     "contributors",
                                                   "todo",           "build.bazel", "module.bazel"};
constexpr std::array<string_view, 4> buildEndings = {".cmake", ".yml", ".yaml", ".in"};

constexpr std::array<string_view, 5> proseEndings = {".md", ".txt", ".rst", ".adoc", ".html"};

template <typename List>
bool holds(const List& list, const QByteArray& name)
{
    return std::find(list.begin(), list.end(), string_view(name.constData(), std::size_t(name.size()))) != list.end();
}

struct PathParts {
    QByteArray name; // lower case
    QByteArray stem; // up to the first dot
    QByteArray ending; // from the last dot on
    bool prose = false;
    QList<QByteArray> folders;

    explicit PathParts(const QByteArray& path)
        : folders(path.toLower().split('/'))
    {
        name = folders.takeLast();
        stem = name.left(name.indexOf('.') < 0 ? name.size() : name.indexOf('.'));
        ending = name.lastIndexOf('.') < 0 ? QByteArray() : name.mid(name.lastIndexOf('.'));
        prose = stem.size() == name.size() || holds(proseEndings, ending);
        const qsizetype dash = stem.indexOf('-'); // LICENSE-APACHE
        if (dash > 0)
            stem.truncate(dash);
    }

    template <typename List>
    bool within(const List& list) const
    {
        return std::any_of(folders.begin(), folders.end(), [&](const QByteArray& f) { return holds(list, f); });
    }

    bool isTest() const
    {
        const auto begins = [&](const char* with) { return name.startsWith(with); };
        const auto ends = [&](const char* with) { return stem.endsWith(with); };
        return within(testFolders) || begins("test_") || begins("tst_") || begins("conftest.") || ends("_test") ||
               ends("_tests") || ends("_unittest") || name.contains(".test.") || name.contains(".spec.");
    }

    /// Of interest to who builds or keeps the repository, less to who asks what its code does.
    bool isUpkeep() const
    {
        const auto hidden = [](const QByteArray& part) { return part.startsWith('.'); };
        return hidden(name) || std::any_of(folders.begin(), folders.end(), hidden) || holds(buildNames, name) ||
               holds(buildEndings, ending);
    }
};

} // namespace

int placeClass(const QByteArray& path)
{
    const PathParts parts(path);
    if (parts.within(vendoredFolders))
        return 1;
    if (parts.prose && holds(licenceNames, parts.stem))
        return 0;
    if (holds(lockFiles, parts.name) || (parts.prose && holds(changelogNames, parts.stem)))
        return 3;
    return 2;
}

int budgetClass(const QByteArray& path)
{
    const PathParts parts(path);
    if (parts.within(vendoredFolders))
        return 7;
    if (placeClass(path) != 2)
        return 6;
    if (parts.folders.isEmpty() && parts.stem == "readme")
        return 0;
    if (parts.isTest())
        return 5;
    if (parts.isUpkeep())
        return 4;
    if (parts.folders.contains("include"))
        return 1;
    return holds(apiEndings, parts.ending) ? 2 : 3;
}

} // namespace octavo::agents
