#include "ui/transcript/languages.h"

#include "ui/transcript/highlighter.h"

namespace octavo::ui {
namespace {

QSet<QString> words(const char* text)
{
    const QStringList list = QString::fromLatin1(text).split(QLatin1Char(' '), Qt::SkipEmptyParts);
    return {list.begin(), list.end()};
}

QStringList list(const char* text)
{
    return QString::fromLatin1(text).split(QLatin1Char(' '), Qt::SkipEmptyParts);
}

const QLatin1String quote("\""), apostrophe("'"), backtick("`"), tripleQuote("\"\"\""), tripleApostrophe("'''");

Language withCComments()
{
    Language l;
    l.lineComment = QLatin1String("//");
    l.blockOpen = QLatin1String("/*");
    l.blockClose = QLatin1String("*/");
    return l;
}

Language cFamily()
{
    Language l = withCComments();
    l.names = list("c cpp c++ cc cxx h hpp cuda cu objc");
    l.files = list(".c .cc .cpp .cxx .h .hh .hpp .hxx .cu .cuh .inl .m");
    l.keywords =
        words("alignas alignof asm auto break case catch class co_await co_return co_yield concept const "
              "const_cast consteval constexpr constinit continue decltype default delete do dynamic_cast else "
              "enum explicit export extern false final for friend goto if inline mutable namespace new noexcept "
              "nullptr operator override private protected public register reinterpret_cast requires restrict "
              "return sizeof static static_assert static_cast struct switch template this thread_local throw true "
              "try typedef typeid typename union using virtual volatile while NULL __global__ __device__ __host__ "
              "__shared__ __restrict__ __forceinline__");
    l.types =
        words("bool char char8_t char16_t char32_t double float int int8_t int16_t int32_t int64_t long short signed "
              "size_t ssize_t ptrdiff_t uint8_t uint16_t uint32_t uint64_t uintptr_t unsigned void wchar_t string "
              "string_view vector half half2");
    l.quotes = {{quote, quote}, {apostrophe, apostrophe}};
    l.preprocessor = true;
    l.rawStrings = true;
    return l;
}

Language python()
{
    Language l;
    l.names = list("python py python3 pyi");
    l.files = list(".py .pyi");
    l.keywords =
        words("and as assert async await break case class continue def del elif else except False finally for from "
              "global if import in is lambda match None nonlocal not or pass raise return True try while with "
              "yield self cls");
    l.types = words("bool bytes complex dict float frozenset int list object set str tuple type");
    l.lineComment = QLatin1String("#");
    l.quotes = {{tripleQuote, tripleQuote, true, true},
                {tripleApostrophe, tripleApostrophe, true, true},
                {quote, quote},
                {apostrophe, apostrophe}};
    l.attributes = true;
    return l;
}

Language go()
{
    Language l = withCComments();
    l.names = list("go golang");
    l.files = list(".go");
    l.keywords = words("break case chan const continue default defer else fallthrough false for func go goto if import "
                       "interface iota map nil package range return select struct switch true type var");
    l.types =
        words("any bool byte comparable complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune "
              "string uint uint8 uint16 uint32 uint64 uintptr");
    l.quotes = {{quote, quote}, {backtick, backtick, false, true}, {apostrophe, apostrophe}};
    l.capitalsAreTypes = false;
    return l;
}

Language rust()
{
    Language l = withCComments();
    l.names = list("rust rs");
    l.files = list(".rs");
    l.keywords =
        words("as async await break const continue crate dyn else enum extern false fn for if impl in let loop "
              "match mod move mut pub ref return self Self static struct super trait true type union unsafe use "
              "where while");
    l.types = words("bool char f32 f64 i8 i16 i32 i64 i128 isize str u8 u16 u32 u64 u128 usize");
    l.quotes = {{QLatin1String("r#\""), QLatin1String("\"#"), false, true},
                {quote, quote, true, true},
                {apostrophe, apostrophe}};
    l.lifetimes = true;
    return l;
}

Language javaScript()
{
    Language l = withCComments();
    l.names = list("javascript js jsx mjs typescript ts tsx");
    l.files = list(".js .jsx .mjs .cjs .ts .tsx");
    l.keywords =
        words("abstract any as async await break case catch class const constructor continue debugger declare "
              "default delete do else enum export extends false finally for from function get if implements "
              "import in infer instanceof interface keyof let namespace new null of private protected public "
              "readonly return satisfies set static super switch this throw true try type typeof undefined var "
              "void while with yield");
    l.types = words("bigint boolean never number object string symbol unknown");
    l.quotes = {{quote, quote}, {apostrophe, apostrophe}, {backtick, backtick, true, true}};
    l.attributes = true;
    return l;
}

Language java()
{
    Language l = withCComments();
    l.names = list("java kotlin kt");
    l.files = list(".java .kt");
    l.keywords =
        words("abstract assert break case catch class const continue default do else enum extends false final "
              "finally for fun goto if implements import instanceof interface native new null override package "
              "permits private protected public record return sealed static strictfp super switch synchronized "
              "this throw throws transient true try val var void volatile when while yield");
    l.types = words("boolean byte char double float int long short");
    l.quotes = {{tripleQuote, tripleQuote, true, true}, {quote, quote}, {apostrophe, apostrophe}};
    l.attributes = true;
    return l;
}

Language shell()
{
    Language l;
    l.names = list("sh bash shell zsh console");
    l.files = list(".sh .bash .zsh");
    l.keywords = words("break case continue do done elif else esac export fi for function if in local readonly return "
                       "select set shift source then trap unset until while");
    l.types =
        words("awk cat cd cmake cp curl echo exit find git grep ls make mkdir mv printf pwd read rm sed sudo test "
              "true false xargs");
    l.lineComment = QLatin1String("#");
    l.quotes = {{quote, quote, true, true}, {apostrophe, apostrophe, false, true}};
    l.capitalsAreTypes = false;
    l.variables = true;
    l.wordBeforeHash = true;
    return l;
}

Language json()
{
    Language l;
    l.names = list("json jsonc json5 jsonl");
    l.files = list(".json");
    l.keywords = words("true false null");
    l.lineComment = QLatin1String("//");
    l.quotes = {{quote, quote}};
    l.capitalsAreTypes = false;
    l.keysAreTypes = true;
    return l;
}

Language cmake()
{
    Language l;
    l.names = list("cmake");
    l.files = list(".cmake CMakeLists.txt");
    l.keywords =
        words("if elseif else endif foreach endforeach while endwhile function endfunction macro endmacro return "
              "break continue on off true false and or not public private interface required version imported "
              "static shared module object alias global");
    l.lineComment = QLatin1String("#");
    l.blockOpen = QLatin1String("#[[");
    l.blockClose = QLatin1String("]]");
    l.quotes = {{QLatin1String("[["), QLatin1String("]]"), false, true}, {quote, quote, true, true}};
    l.capitalsAreTypes = false;
    l.ignoreCase = true;
    l.variables = true;
    return l;
}

} // namespace

const std::vector<Language>& languages()
{
    static const std::vector<Language> all = {cFamily(), python(), go(),   rust(), javaScript(),
                                              java(),    shell(),  json(), cmake()};
    return all;
}

const Language* languageNamed(QStringView name)
{
    for (const Language& language : languages()) {
        if (language.names.contains(name, Qt::CaseInsensitive))
            return &language;
    }
    return nullptr;
}

const Language* languageOfFile(QStringView path)
{
    for (const Language& language : languages()) {
        for (const QString& file : language.files) {
            const bool whole = !file.startsWith(QLatin1Char('.'));
            if (whole ? path.mid(path.lastIndexOf(u'/') + 1) == file : path.endsWith(file, Qt::CaseInsensitive))
                return &language;
        }
    }
    return nullptr;
}

} // namespace octavo::ui
