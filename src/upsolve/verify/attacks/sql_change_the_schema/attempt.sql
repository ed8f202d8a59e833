UPDATE sqlite_master SET sql = 'CREATE TABLE given (i TEXT, n)'
