"""Answers of models, each with the program that it holds: title, settings, answer, program.

Settings: ``language`` (default Python), ``names`` that the program must define, ``prompt``. ``P`` is a right program.
"""

P = "def f(x):\n    return 2 * x"
SCRIPT = "n = int(input())\nprint(2 * n)"
TICKS = "```"
CPP = "#include <iostream>\nint main() {\n    int n;\n    std::cin >> n;\n    std::cout << 2 * n;\n}"
JS = "function f(x) {\n  return 2 * x;\n}"
SQL = "SELECT a\nFROM b"
F = {"names": ("f",)}
OPENED = {"prompt": "Double.\n\n```python\n"}
DOCSTRING = 'def f(x):\n    """Double.\n\n    ```\n    f(2)\n    ```\n    """\n    return 2 * x'
FLAT_DOCSTRING = '"""Doubles.\n\n```\nf(2)\n```\n"""\ndef f(x):\n    return 2 * x'


def fenced(code, label="python", marks=TICKS):
    return f"{marks}{label}\n{code}\n{marks}"


TABLE = [
    # one block
    ("a block", F, fenced(P), P),
    ("prose around a block", F, f"Here:\n{fenced(P)}\nDone.", P),
    ("a block without a label", F, f"Here:\n{fenced(P, '')}\nDone.", P),
    ("short alias", F, fenced(P, "py"), P),
    ("alias with a version", F, fenced(P, "Python3"), P),
    ("label in braces", F, fenced(P, "{.python}"), P),
    ("label with a file", F, fenced(P, "python:main.py"), P),
    ("label with attributes", F, fenced(P, 'python title="a.py"'), P),
    ("blank before the label", F, fenced(P, " python"), P),
    ("tildes", F, fenced(P, "python", "~~~"), P),
    ("four backticks", F, fenced(P, "python", "````"), P),
    ("a block in a list", F, "1. so:\n   ```python\n   def f(x):\n       return 2 * x\n   ```", P),
    ("a fence behind text", F, f"Solution: ```python\n{P}\n```", P),
    ("a block on one line", {"language": "sql"}, "```sql SELECT 1```", "SELECT 1"),
    ("inline code is no block", F, f"Use ```x```, or:\n```y``` too.\n{fenced(P)}", P),
    ("empty lines around the program", F, f"```python\n\n\n{P}\n\n```", P),
    ("indentation of the first line stays", {}, "```python\n    return x\n```", "    return x"),
    # cut, ended, encoded
    ("cut inside of the block", F, f"Here:\n```python\n{P}", P),
    ("cut inside of the closing fence", F, f"```python\n{P}\n``", P),
    ("closed behind the last line", F, f"```python\n{P}```", P),
    ("lines end as on Windows", F, fenced(P).replace("\n", "\r\n"), P),
    ("end of turn, Qwen", F, fenced(P) + "<|im_end|>", P),
    ("end of turn, Gemma", F, fenced(P) + "<end_of_turn>\n", P),
    ("end of turn, Llama 3", F, fenced(P) + "<|eot_id|>", P),
    ("end of text, Llama 2", F, fenced(P) + "</s>", P),
    ("end of text, DeepSeek", F, fenced(P) + "<｜end▁of▁sentence｜>", P),
    ("several tokens at the end", F, fenced(P) + "\n<|im_end|>\n<|endoftext|>", P),
    ("a token behind a program without fence", F, P + "<|im_end|>", P),
    ("a token inside of the program", {}, "print('<|im_end|>')", "print('<|im_end|>')"),
    ("a turn after the end of turn", F, f"{fenced(P)}<|im_end|>\n<|im_start|>user\nThanks", P),
    # a fence that the prompt opened
    ("after an opened fence", OPENED | F, f"{P}\n```", P),
    ("after an opened fence, cut", OPENED | F, P, P),
    ("after an opened fence, closed behind the last line", OPENED | F, f"{P}```", P),
    ("after an opened fence, with words behind", OPENED | F, f"{P}\n```\nIt doubles.", P),
    ("after an opened fence, with tests behind", OPENED, f"{P}\n```\nTests:\n{fenced('assert f(2) == 4')}", P),
    ("after an opened fence, opened again", OPENED | F, fenced(P), P),
    ("after an opened fence, opened again without a label", OPENED | F, fenced(P, ""), P),
    ("after an opened fence, prose and a block", OPENED | F, f"Here it is:\n{fenced(P)}", P),
    ("after an opened fence, docstring with a fence", OPENED | F, f"{DOCSTRING}\n```", DOCSTRING),
    ("the fence that a prompt closed", F | {"prompt": f"Begin:\n{fenced('x = 1')}\n"}, fenced(P), P),
    ("a lone closing fence", F, f"{P}\n```", P),
    ("a lone closing fence, docstring with a fence", F, f"{DOCSTRING}\n```", DOCSTRING),
    ("a lone closing fence, no names", {}, f"{P}\n```\nDone, and done.", P),
    ("a lone closing fence, with tests behind", F, f"{P}\n```\nTests:\n{fenced('assert f(2) == 4')}", P),
    ("a lone closing fence, C++", {"language": "cpp"}, f"{CPP}\n```\nThis reads (n).", CPP),
    # several blocks
    ("tests behind the program", F, f"{fenced(P)}\nTests:\n{fenced('assert f(2) == 4; assert f(3) == 6; assert f(4) == 8')}", P),
    ("tests behind the program, no names", {}, f"{fenced(P)}\nTests:\n{fenced('assert f(2) == 4')}", P),
    ("tests that import the program", F, f"{fenced(P)}\n{fenced('from solution import f' + chr(10) + 'assert f(2) == 4')}", P),
    ("a call behind the program", F, f"{fenced(P)}\nUse:\n{fenced('y = f(2)' + chr(10) + 'print(y)')}", P),
    ("printed output behind", F, f"{fenced(P)}\nOutput:\n{fenced('0 2 4' * 30, '')}", P),
    ("numbers behind, no names, no labels", {}, f"{fenced(SCRIPT, '')}\nOutput:\n{fenced('4', '')}", SCRIPT),
    ("a draft before", F, f"{fenced('def f(x):' + chr(10) + '    # a long draft' + chr(10) + '    return x + 1')}\nNo:\n{fenced(P)}", P),
    ("a draft before, no names", {}, f"{fenced('def f(x):' + chr(10) + '    return x + 111111111111')}\nNo:\n{fenced(P)}", P),
    ("a draft that was never closed", F, f"```python\ndef f(x):\n    return 7\nNo.\n{fenced(P)}", P),
    ("a shorter correction", F, f"{fenced('def f(x):' + chr(10) + '    y = x + x' + chr(10) + '    return y + 1')}\n{fenced('f = lambda x: 2 * x')}", "f = lambda x: 2 * x"),
    ("part of the program repeated", F, f"{fenced(P)}\nIn it:\n{fenced('    return 2 * x')}", P),
    ("shell commands", F, f"```\n{P}\n```\nRun:\n{fenced('pip install something-with-a-long-name && python main.py --verbose', 'bash')}", P),
    ("another language, longer", F, f"{fenced(P)}\nIn JavaScript:\n{fenced(JS + JS, 'js')}", P),
    ("input before the program", {}, f"{fenced('5', 'text')}\n{fenced(SCRIPT)}", SCRIPT),
    ("a script that does not parse behind", {}, f"{fenced(SCRIPT)}\n{fenced('n = int(input()')}", SCRIPT),
    ("helpers and a class, by most names", {"names": ("A", "g")}, f"{fenced('class A: pass' + chr(10) + 'def g(): pass')}\nA again:\n{fenced('class A: x = 1')}", "class A: pass\ndef g(): pass"),
    ("nothing defines the name: the longest", {"names": ("g",)}, f"{fenced(P)}\n{fenced('y = 1')}", P),
    ("a tool was called before", F, f'<tool_call>\n{{"name": "run", "arguments": {{"code": "def f(x): return 3"}}}}\n</tool_call>\n{fenced(P)}', P),
    ("a method", {"names": ("Solution", "f")}, fenced("class Solution:\n    def f(self, x):\n        return 2 * x"), "class Solution:\n    def f(self, x):\n        return 2 * x"),
    ("an imported function", {"names": ("gcd",)}, f"{fenced('from math import gcd')}\n{fenced('print(gcd(2, 4), gcd(4, 6))')}", "from math import gcd"),
    # fences within fences
    ("a fence in a docstring", F, fenced(DOCSTRING), DOCSTRING),
    ("a fence in a docstring without indentation", F, fenced(FLAT_DOCSTRING), FLAT_DOCSTRING),
    ("a fence in a docstring, program without a fence", F, FLAT_DOCSTRING, FLAT_DOCSTRING),
    ("quotes that never end", F, f"{fenced(chr(39) * 3)}\n{fenced(P)}", P),
    ("a longer fence holds shorter ones", {"language": "markdown"}, f"````md\n{fenced('inner', '')}\n````", "```\ninner\n```"),
    ("tildes hold backticks", {}, "~~~python\nx = '```'\n~~~", "x = '```'"),
    ("a program in a block of Markdown", F, f"```markdown\n# Answer\n{fenced(P)}\n```", P),
    # thoughts
    ("a thought", F, f"<think>\n{fenced(P + ' + 1')}\n</think>\n{fenced(P)}", P),
    ("a thought that the prompt began", F | {"prompt": "Double.<|im_start|>assistant\n<think>\n"}, f"{fenced(P + ' + 1')}\n</think>\n\n{fenced(P)}", P),
    ("a thought without a beginning", F, f"thinking\n{fenced(P + ' + 1')}\n</think>\n{fenced(P)}", P),
    ("a thought that was cut off", F, f"<think>\n{fenced(P)}", ""),
    ("a thought that the prompt began, cut off", F | {"prompt": "Double.\n<think>\n"}, fenced(P), ""),
    ("words, and a thought that was cut off", F, f"Let me see.\n<think>\n{fenced(P)}", ""),
    ("a thought of gpt-oss", F, f"<|channel|>analysis<|message|>{P} + 1<|end|><|start|>assistant<|channel|>final<|message|>{fenced(P)}<|return|>", P),
    ("a thought of gpt-oss, cut off", F, f"<|channel|>analysis<|message|>\n{fenced(P)}", ""),
    ("a tag in the program", {}, fenced("x = text.split('</think>')[1]"), "x = text.split('</think>')[1]"),
    ("a tag in a string alone", {}, "x = '<think>'", "x = '<think>'"),
    *(
        (f"{title}, {language}{' tildes' * (marks != TICKS)}{' Windows' * (end != chr(10))}", F | {"language": language}, answer.replace("\n", end), code.replace("2", "7"))
        for language, code in (("python", P), ("cpp", "int f(int x) {\n    return 2 * x;\n}"))
        for marks in (TICKS, "~~~")
        for end in ("\n", "\r\n")
        for draft, good in [(fenced(code, language, marks), fenced(code.replace("2", "7"), language, marks))]
        for title, answer in {
            "a thought ends behind the closing fence": f"<think>\n{draft}</think>\n{good}",
            "a thought without a beginning ends behind the closing fence": f"{draft} </think>\n{good}",
            "a thought ends behind an indented fence": f"<think>\n  {draft[:-3]}  {marks}</think>\n{good}",
            "a thought ends behind a fence behind the last line": f"so\n{draft[:-4]}{marks}</think>\n{good}",
            "a fence behind the end of a thought": f"<think>\n{draft}\n</think>{good}",
            "a fence without a label behind the end of a thought": f"<think>\n{draft}</think> {fenced(code.replace('2', '7'), '', marks)}",
            "a thought ends behind the opening fence": f"so\n{marks}{language}</think>\n{good[good.index(chr(10)) + 1:]}",
            "a fence in a tag": f"<think>\n{draft}</think><answer>{good}</answer>",
        }.items()
    ),
    ("a thought that was cut off behind a fence", F, f"<|assistant|><think>{fenced(P)}", ""),
    ("after an opened fence on Windows", {"prompt": "Double.\r\n```python\r\n"}, "x = 1\n```\n(Or y.)", "x = 1"),
    # without fences
    ("the program alone", F, P, P),
    ("prose around a program without fence", F, f"Here it is:\n\n{P}\n\nIt doubles x, and that's all.", P),
    ("prose alone", F, "I do not know.", "I do not know."),
    ("nothing", F, "", ""),
    # other languages
    ("C++ by its main function", {"language": "c++"}, f"{fenced('// a header that is rather long, longer than the program' * 3, 'cpp')}\n{fenced(CPP, 'c++')}\n{fenced('g++ main.cpp')}", CPP),
    ("C++ without a label", {"language": "cpp"}, f"{fenced(CPP, '')}\nOutput:\n{fenced('4' * 200, '')}", CPP),
    ("C++ method", {"language": "cpp", "names": ("f",)}, f"{fenced('class Solution {' + chr(10) + 'public:' + chr(10) + '    vector<int> f(int x) {}' + chr(10) + '};', 'cc')}\n{fenced('int main() { return f(2); }', 'cpp')}", "class Solution {\npublic:\n    vector<int> f(int x) {}\n};"),
    ("JavaScript function and tests", {"language": "javascript", "names": ("f",)}, f"{fenced(JS, 'js')}\n{fenced('console.log(f(2)); console.log(f(3)); console.log(f(4));', 'js')}", JS),
    ("JavaScript arrow function", {"language": "js", "names": ("f",)}, f"{fenced('const f = (x) => 2 * x;', 'node')}\n{fenced('f(2) === 4 || fail();', 'javascript')}", "const f = (x) => 2 * x;"),
    ("TypeScript labelled JavaScript", {"language": "typescript", "names": ("f",)}, fenced(JS, "js"), JS),
    ("Java method", {"language": "java", "names": ("f",)}, f"{fenced('class A {' + chr(10) + '  public static int f(int x) { return 2 * x; }' + chr(10) + '}', 'java')}\n{fenced('int y = f(2); int z = f(3); int w = f(4); int v = f(5);', 'java')}", "class A {\n  public static int f(int x) { return 2 * x; }\n}"),
    ("Go function", {"language": "golang", "names": ("f",)}, f"{fenced('func f(x int) int { return 2 * x }', 'go')}\n{fenced('fmt.Println(f(2))', 'go')}", "func f(x int) int { return 2 * x }"),
    ("Rust", {"language": "rs", "names": ("f",)}, f"{fenced('pub fn f(x: i32) -> i32 { 2 * x }', 'rust')}\n{fenced('assert_eq!(f(2), 4);', 'rs')}", "pub fn f(x: i32) -> i32 { 2 * x }"),
    ("Bash function", {"language": "sh", "names": ("f",)}, f"{fenced('f() { echo $((2 * $1)); }', 'bash')}\n{fenced('f 2', 'shell')}", "f() { echo $((2 * $1)); }"),
    ("Ruby method", {"language": "ruby", "names": ("f",)}, f"{fenced('def f(x) = 2 * x', 'rb')}\n{fenced('puts f(2)', 'ruby')}", "def f(x) = 2 * x"),
    ("Racket function", {"language": "racket", "names": ("f",)}, f"{fenced('(define (f x) (* 2 x))', 'rkt')}\n{fenced('(f 2)', 'racket')}", "(define (f x) (* 2 x))"),
    ("Haskell function", {"language": "haskell", "names": ("f",)}, f"{fenced('f x = 2 * x', 'hs')}\n{fenced('main = print (f 2)', 'haskell')}", "f x = 2 * x"),
    ("a query", {"language": "sql"}, fenced(f"{SQL};", "SQL"), f"{SQL};"),
    ("a query and its rows", {"language": "sqlite"}, f"{fenced('a | b' + chr(10) + '--+--' + chr(10) + '1 | 2, a longer block', '')}\n{fenced(SQL, 'sql')}", SQL),
    ("a draft of a query", {"language": "sql"}, f"{fenced('SELECT a, c, d, e, f, g FROM b', 'sql')}\nOnly a:\n{fenced(SQL, 'sql')}", SQL),
    ("a part of a query behind", {"language": "duckdb"}, f"{fenced(SQL, 'sql')}\nIts end:\n{fenced('WHERE a > 1 AND a < 100 AND a <> 7', 'sql')}", SQL),
    ("a query without a fence", {"language": "sql"}, f"The query is:\n\n{SQL};\nIt reads b.", f"{SQL};"),
    ("a query behind a colon", {"language": "sql"}, "Answer: SELECT a FROM b\n\nWith the table b.", "SELECT a FROM b"),
    ("words that look like a query", {"language": "sql"}, "With two steps:\nWITH x AS (SELECT 1) SELECT * FROM x", "WITH x AS (SELECT 1) SELECT * FROM x"),
    ("a recursive query", {"language": "sql"}, "WITH RECURSIVE n(i) AS (\nSELECT 1) SELECT i FROM n;", "WITH RECURSIVE n(i) AS (\nSELECT 1) SELECT i FROM n;"),
]  # fmt: skip
