PRAGMA writable_schema = ON
