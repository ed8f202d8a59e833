SELECT i, fts3_tokenizer('simple', x'4141414141414141') FROM given
