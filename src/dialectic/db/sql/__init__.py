"""SQL: roles, bootstrap, migrations, functions, bindings and named queries."""
