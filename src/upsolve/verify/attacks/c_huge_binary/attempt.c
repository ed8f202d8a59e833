int main[1 << 29] = {1};
