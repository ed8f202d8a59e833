SELECT * FROM pragma_database_list, pragma_temp_store_directory('/tmp'), pragma_function_list
