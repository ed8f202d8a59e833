CREATE VIRTUAL TABLE temp.files USING csv(filename = '/etc/passwd')
