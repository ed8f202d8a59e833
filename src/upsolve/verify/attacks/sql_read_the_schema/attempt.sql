SELECT sql, name FROM sqlite_master UNION ALL SELECT sql, name FROM sqlite_schema UNION ALL SELECT name, sql FROM sqlite_temp_master
