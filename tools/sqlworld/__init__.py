"""The text-to-SQL world behind the archive ``embedded-sql``: schemas, databases, questions, queries, mutations."""
